package hooks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/rs/zerolog"

	"shardway/ack/agent"
	"shardway/shardmap"
)

// Func calls an app in the node's own process. Nobody can end a function: an attempt
// goes on until it has returned, and counts as running.
type Func struct {
	// Call makes a call. It is to return soon after ctx has ended.
	Call func(ctx context.Context, call agent.HookCall) agent.HookResult
	Log  zerolog.Logger
}

// Do calls the function. A panic of it is an error, and so is that it ends its
// goroutine. An answer that comes though the time is over counts.
func (f *Func) Do(ctx context.Context, call agent.HookCall) (r agent.HookResult) {
	returned := make(chan struct{})
	go func() { // on one of its own, which it may end by runtime.Goexit
		defer close(returned)
		r.Err = errors.New("the function ended its goroutine instead of returning")
		defer func() {
			if v := recover(); v != nil {
				f.Log.Error().Str("hook", call.Kind.String()).Str("panic", fmt.Sprint(v)).Bytes("stack", debug.Stack()).Msg("app panicked")
				r = agent.HookResult{Err: fmt.Errorf("the function panicked: %v", v)}
			}
		}()
		r = f.Call(ctx, call)
	}()
	<-returned
	if r.Err == nil {
		r = checked(&call, r)
	}
	if r.Err != nil {
		return agent.HookResult{Err: failure(&call, r.Err)}
	}
	return r
}

// checked holds what a function answers to the bounds of what comes over the wire.
func checked(call *agent.HookCall, r agent.HookResult) agent.HookResult {
	out := agent.HookResult{Failed: make(map[shardmap.Shard]string), Notes: make(map[shardmap.Shard][]byte)}
	asked := make(map[shardmap.Shard]bool)
	for _, s := range call.Shards {
		asked[s.Shard] = true
	}
	for s, text := range r.Failed {
		if !asked[s] {
			return agent.HookResult{Err: notAsked("Failed", s)}
		}
		out.Failed[s] = why(text)
	}
	for s, note := range r.Notes {
		if !asked[s] {
			return agent.HookResult{Err: notAsked("Notes", s)}
		}
		if call.Kind == agent.HookRelease {
			keep(&out, s, note)
		}
	}
	for s := range r.Absent {
		if !asked[s] {
			return agent.HookResult{Err: notAsked("Absent", s)}
		}
	}
	if call.Kind == agent.HookRelease {
		leaveOut(&out, slices.Collect(maps.Keys(r.Absent)))
	}
	return out
}
