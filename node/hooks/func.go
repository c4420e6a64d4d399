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

// Do calls the function, with shard numbers that count from the first shard of the service. If the function panics or calls runtime.Goexit, the result is an error. A result
// that arrives after the end of ctx is valid.
func (f *Func) Do(ctx context.Context, call agent.HookCall) agent.HookResult {
	return mapShards(f.do(ctx, shardsInService(call)), call.First)
}

// do implements Do. The shards of the call and of the result count from the first shard of the service.
func (f *Func) do(ctx context.Context, call agent.HookCall) (result agent.HookResult) {
	returned := make(chan struct{})
	go func() { // a separate goroutine, because runtime.Goexit must not end the goroutine of Do
		defer close(returned)
		result.Err = errors.New("the function ended its goroutine instead of returning")
		defer func() {
			if panicValue := recover(); panicValue != nil {
				f.Log.Error().Str("hook", call.Kind.String()).Str("panic", fmt.Sprint(panicValue)).Bytes("stack", debug.Stack()).Msg("app panicked")
				result = agent.HookResult{Err: fmt.Errorf("the function panicked: %v", panicValue)}
			}
		}()
		result = f.Call(ctx, call)
	}()
	<-returned
	if result.Err == nil {
		result = validateResult(&call, result)
	}
	if result.Err != nil {
		return agent.HookResult{Err: newCallError(&call, result.Err)}
	}
	return result
}

// validateResult applies the rules for responses over HTTP (see decodeResponse) to the result of a
// function.
func validateResult(call *agent.HookCall, result agent.HookResult) agent.HookResult {
	validated := agent.HookResult{Failed: make(map[shardmap.Shard]string), Notes: make(map[shardmap.Shard][]byte)}
	called := make(map[shardmap.Shard]bool)
	for _, shard := range call.Shards {
		called[shard.Shard] = true
	}
	for shard, text := range result.Failed {
		if !called[shard] {
			return agent.HookResult{Err: unexpectedShardError("Failed", shard)}
		}
		validated.Failed[shard] = truncateReason(text)
	}
	for shard, note := range result.Notes {
		if !called[shard] {
			return agent.HookResult{Err: unexpectedShardError("Notes", shard)}
		}
		if call.Kind == agent.HookRelease {
			storeNote(&validated, shard, note)
		}
	}
	for shard := range result.Absent {
		if !called[shard] {
			return agent.HookResult{Err: unexpectedShardError("Absent", shard)}
		}
	}
	if call.Kind == agent.HookRelease {
		markAbsent(&validated, slices.Collect(maps.Keys(result.Absent)))
	}
	return validated
}
