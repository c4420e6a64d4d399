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

// Func calls the hooks of an app in the process of the node. A function cannot be stopped from outside, so a
// call is in progress until the function has returned, even after a timeout.
type Func struct {
	// Call makes a call. It must return soon after ctx has ended.
	Call func(ctx context.Context, call agent.HookCall) agent.HookResult
	Log  zerolog.Logger
}

// Do calls the function. If the function panics or calls runtime.Goexit, the result is an error. A result
// that arrives after the end of ctx is valid.
func (f *Func) Do(ctx context.Context, call agent.HookCall) (r agent.HookResult) {
	returned := make(chan struct{})
	go func() { // a separate goroutine, because runtime.Goexit must not end the goroutine of Do
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
		r = validateResult(&call, r)
	}
	if r.Err != nil {
		return agent.HookResult{Err: failure(&call, r.Err)}
	}
	return r
}

// validateResult applies the rules for responses over HTTP (see decode) to the result of a function.
func validateResult(call *agent.HookCall, r agent.HookResult) agent.HookResult {
	out := agent.HookResult{Failed: make(map[shardmap.Shard]string), Notes: make(map[shardmap.Shard][]byte)}
	asked := make(map[shardmap.Shard]bool)
	for _, s := range call.Shards {
		asked[s.Shard] = true
	}
	for s, text := range r.Failed {
		if !asked[s] {
			return agent.HookResult{Err: notAsked("Failed", s)}
		}
		out.Failed[s] = truncateReason(text)
	}
	for s, note := range r.Notes {
		if !asked[s] {
			return agent.HookResult{Err: notAsked("Notes", s)}
		}
		if call.Kind == agent.HookRelease {
			storeNote(&out, s, note)
		}
	}
	for s := range r.Absent {
		if !asked[s] {
			return agent.HookResult{Err: notAsked("Absent", s)}
		}
	}
	if call.Kind == agent.HookRelease {
		markAbsent(&out, slices.Collect(maps.Keys(r.Absent)))
	}
	return out
}
