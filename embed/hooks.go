package embed

import (
	"context"

	"shardway/ack/agent"
	"shardway/shardmap"
)

// HookFunc is a hook of the app. It corresponds to the HTTP hooks of --hooks. An error or a panic
// fails the whole call; HookAnswer reports failures of single shards. ctx ends at the timeout, or
// when the call is no longer needed. The call is in progress, and its shards cannot move, until
// the function has returned.
type HookFunc func(ctx context.Context, c HookCall) (HookAnswer, error)

// HookCall is the argument of a hook.
type HookCall struct {
	// Map is the epoch of the map that causes the call: the proposed map for Release, the committed map
	// for Acquire, and the last known map for Lost.
	Map    uint64
	Shards []HookShard // 1 to 256 shards, sorted by number
}

// HookShard is one shard of a call.
type HookShard struct {
	Shard int
	// Epoch is the ownership epoch that ends with Release or Lost, or starts with Acquire.
	Epoch uint64

	// To and Cut are set for Release. To is the next owner, or "" if it is unknown. Cut is the number
	// of requests that were aborted because the shard moves.
	To  string
	Cut int

	// The following fields are set for Acquire. From is the previous owner, or "". Released means that
	// From has released the shard and no node has run a request for it since, so the state to which
	// Note refers is final. Note is the note of this release, or nil; it must not be modified. Again
	// means that this app may already hold the shard in this epoch.
	From     string
	Released bool
	Note     []byte
	Again    bool
}

// HookAnswer is the result of a hook. The zero value means success for all shards.
type HookAnswer struct {
	Failed map[int]string // reasons by shard; the node repeats a failed Acquire or Release
	// Absent has the shards that the app does not hold, for Release. They move immediately, and the next
	// owner receives no note.
	Absent []int
	// Notes has notes for the next owner by shard, for Release. A note should contain the location of
	// the state, not the state itself. The limits are 1 KiB per shard, and 128 KiB and 1,024 notes in total. A shard
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
