package embed

import (
	"context"

	"shardway/ack/agent"
	"shardway/shardmap"
)

// HookFunc is a hook of the app, a function that loads, saves or discards shards. It has the meaning of
// the HTTP hook of --hooks with the same name. If it returns an error or panics, the call has failed for
// all of its shards. A HookAnswer reports failures of single shards. ctx ends at the timeout, or when
// the result is no longer needed. The shards of the call cannot move until the function has returned.
type HookFunc func(ctx context.Context, c HookCall) (HookAnswer, error)

// HookCall is the argument of a hook.
type HookCall struct {
	// Map is the epoch of the shard map that caused the call. That is the proposed map for Release, the
	// committed map for Acquire, and the last known map for Lost.
	Map uint64
	// Shards are the shards that the app must acquire, release or discard: 1 to 256, sorted by number.
	Shards []HookShard
}

// HookShard is one shard of a call.
type HookShard struct {
	// Shard is the number of the shard.
	Shard int
	// Epoch is the ownership epoch that ends with Release or Lost, or starts with Acquire.
	Epoch uint64

	// To is the node that will own the shard next, or "" if it is unknown. Set for Release.
	To string
	// Cut is the number of requests for the shard that were aborted so that it can move. Set for Release.
	Cut int

	// From is the previous owner of the shard, or "" if there was none. Set for Acquire.
	From string
	// Released is set if From has released the shard and no node has run a request for the shard since. The state
	// that From has saved is then final. If it is false, this is not known. Set for Acquire.
	Released bool
	// Note is the text that From returned in HookAnswer.Notes for this release, or nil. It must not be
	// modified. Set for Acquire.
	Note []byte
	// Again is set if this app may already hold the shard in this epoch, because an earlier Acquire call may have
	// succeeded. Set for Acquire.
	Again bool
}

// HookAnswer is the result of a hook. The zero value means success for all shards.
type HookAnswer struct {
	// Failed contains each shard for which the call failed, with the reason. The node repeats a failed
	// Acquire or Release.
	Failed map[int]string
	// Absent lists the shards of a Release call that the app does not hold. They move immediately, and
	// the next owner receives no note.
	Absent []int
	// Notes contains, for shards of a Release call, a text that the next owner receives in
	// HookShard.Note. A note should contain the location of the saved state, not the state itself. The limits are 1 KiB per shard, and 128 KiB and 1,024 notes in total. A shard
	// whose note exceeds them moves as if it had not been released.
	Notes map[int][]byte
}

// hookFunc returns the function that calls the hooks, or nil if there are none.
func (c Config) hookFunc() func(context.Context, agent.HookCall) agent.HookResult {
	if !c.hasHooks() {
		return nil
	}
	return func(ctx context.Context, call agent.HookCall) agent.HookResult {
		hook := c.Lost
		switch call.Kind {
		case agent.HookAcquire:
			hook = c.Acquire
		case agent.HookRelease:
			hook = c.Release
		case agent.HookLost:
		}
		if hook == nil {
			return agent.HookResult{} // a nil hook does nothing
		}
		answer, err := hook(ctx, convertCall(call))
		return convertAnswer(answer, err)
	}
}

// convertAnswer converts the result of a hook to the types of package agent.
func convertAnswer(answer HookAnswer, err error) agent.HookResult {
	result := agent.HookResult{Err: err, Failed: make(map[shardmap.Shard]string), Notes: make(map[shardmap.Shard][]byte)}
	for shard, reason := range answer.Failed {
		result.Failed[shardmap.Shard(shard)] = reason
	}
	if len(answer.Absent) > 0 {
		result.Absent = make(map[shardmap.Shard]bool)
	}
	for _, shard := range answer.Absent {
		result.Absent[shardmap.Shard(shard)] = true
	}
	for shard, note := range answer.Notes {
		result.Notes[shardmap.Shard(shard)] = note
	}
	return result
}

// hasHooks reports whether the app has at least one hook.
func (c Config) hasHooks() bool { return c.Acquire != nil || c.Release != nil || c.Lost != nil }

// convertCall converts a call to the types of this package.
func convertCall(call agent.HookCall) HookCall {
	converted := HookCall{Map: uint64(call.Map)}
	for _, shard := range call.Shards {
		converted.Shards = append(converted.Shards, HookShard{
			Shard: int(shard.Shard), Epoch: uint64(shard.Epoch), To: string(shard.To), Cut: shard.Cut,
			From: string(shard.From), Released: shard.Released, Note: shard.Note, Again: shard.Again,
		})
	}
	return converted
}
