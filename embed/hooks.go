package embed

import (
	"context"

	"shardway/ack"
	"shardway/shardmap"
)

// HookFunc is one of the app's hooks: what `shardway run` tells an app by --hooks. An
// error, and a panic, is one of the whole call; what failed for single shards the answer
// says. ctx ends when the time is over, or the call is needed no more. Until the function
// has returned the call counts as running, and holds up its shards.
type HookFunc func(ctx context.Context, c HookCall) (HookAnswer, error)

// HookCall is what a hook is called with.
type HookCall struct {
	// Map is the epoch of the map because of which it is called: the proposed one that
	// takes the shards away, or the committed one that gives them; of Lost the last known.
	Map    uint64
	Shards []HookShard // 1 to 256, ordered by number
}

// HookShard is one shard of a call.
type HookShard struct {
	Shard int
	// Epoch is the ownership epoch that ends by Release and Lost, or begins by Acquire.
	Epoch uint64

	// Of Release: who owns the shard next, empty if nobody is known to, and how many of
	// its requests were cut because it moves.
	To  string
	Cut int

	// Of Acquire: who owned the shard before, empty for nobody; that From has released it
	// and nobody has had a request of it since, so that what Note points at is final; what
	// From's Release left, nil for nothing; and that this app may hold the shard under this
	// very epoch. Note may not be changed.
	From     string
	Released bool
	Note     []byte
	Again    bool
}

// HookAnswer is what a hook says of its shards. The zero value: all is well.
type HookAnswer struct {
	Failed map[int]string // why, by shard; a release or an acquire of these is repeated
	// Absent, of Release, are the shards that the app does not hold. They move at once, and
	// whoever owns them next is told nothing about them.
	Absent []int
	// Notes, of Release, are for who acquires the shard next: where its state is, not the
	// state. Of a shard at most 1 KiB, 128 KiB and 1 024 notes in all: a shard whose note
	// does not fit moves as if it had not been released.
	Notes map[int][]byte
}

// hook returns what calls the hooks; nil if there are none.
func (c Config) hook() func(context.Context, ack.HookCall) ack.HookResult {
	if !c.hooked() {
		return nil
	}
	return func(ctx context.Context, call ack.HookCall) ack.HookResult {
		f := c.Lost
		switch call.Kind {
		case ack.HookAcquire:
			f = c.Acquire
		case ack.HookRelease:
			f = c.Release
		case ack.HookLost:
		}
		if f == nil {
			return ack.HookResult{} // there is nothing to do
		}
		answer, err := f(ctx, shown(call))
		r := ack.HookResult{Err: err, Failed: make(map[shardmap.Shard]string), Notes: make(map[shardmap.Shard][]byte)}
		for s, why := range answer.Failed {
			r.Failed[shardmap.Shard(s)] = why
		}
		for _, s := range answer.Absent {
			if r.Absent == nil {
				r.Absent = make(map[shardmap.Shard]bool)
			}
			r.Absent[shardmap.Shard(s)] = true
		}
		for s, note := range answer.Notes {
			r.Notes[shardmap.Shard(s)] = note
		}
		return r
	}
}

func (c Config) hooked() bool { return c.Acquire != nil || c.Release != nil || c.Lost != nil }

// shown is a call in the words of this package.
func shown(call ack.HookCall) HookCall {
	c := HookCall{Map: uint64(call.Map)}
	for _, s := range call.Shards {
		c.Shards = append(c.Shards, HookShard{
			Shard: int(s.Shard), Epoch: uint64(s.Epoch), To: string(s.To), Cut: s.Cut,
			From: string(s.From), Released: s.Released, Note: s.Note, Again: s.Again,
		})
	}
	return c
}
