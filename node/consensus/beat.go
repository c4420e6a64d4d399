package consensus

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// seldom is the library's own pace of heartbeats while others ask for them: one in a
	// tenth to a fifth of it. A server asks for more before that, so that none of its
	// timers ends: each would wake the process.
	seldom = 5 * time.Second
	// settled is how long after the last request, and the last heartbeat that failed, all
	// counts as at rest. A write that hangs for longer is seen to, see hang.
	settled = 3 * time.Second
)

// beats is whether the leader's heartbeats are asked for, or go by the library's timers:
// one for each follower, of 50 to 100 ms, each of which wakes an idle process on its own.
//
// Those that are asked for go through Raft's loop, which waits for writes, and the timers
// are there so that heartbeats do not. So they are asked for only while nothing is written;
// and while all servers can be reached, for with slow timers the pause after a failed one is long.
type beats struct {
	ask chan struct{} // cap 1: hint

	mu      sync.Mutex
	stirred time.Time // when stir was called last
	slow    *core     // whose timers are slow; nil: none's
}

// Beat has the leader send its heartbeats now. Who calls it does so again within a fifth of
// Options.Heartbeat, or calls BeatAlone. It does not wait.
func (r *Raft) Beat() {
	c := r.cur.Load()
	r.beats.mu.Lock()
	defer r.beats.mu.Unlock()
	if r.pending.Load() > 0 || time.Since(r.beats.stirred) < settled || !r.slow(c) {
		return
	}
	hint(r.beats.ask)
}

// BeatAlone has the library send heartbeats by its own timers, as it does anyway while there
// is anything to write, and before the first Beat.
func (r *Raft) BeatAlone() {
	r.beats.mu.Lock()
	defer r.beats.mu.Unlock()
	r.quick()
}

// stir is told of each request that may write, before it is made, and of each heartbeat that
// failed.
func (r *Raft) stir() {
	r.beats.mu.Lock()
	defer r.beats.mu.Unlock()
	r.beats.stirred = time.Now()
	r.quick()
}

// slow has a leader's timers be slow, and reports whether they are.
func (r *Raft) slow(c *core) bool {
	if c != nil && r.beats.slow != c && c.State() == raft.Leader && c.pace(seldom, seldom) == nil {
		r.beats.slow = c
	}
	if r.beats.slow != nil && r.beats.slow.State() != raft.Leader {
		r.quick()
	}
	return r.beats.slow != nil
}

// quick ends that. The library then sends heartbeats at once.
func (r *Raft) quick() {
	if c := r.beats.slow; c != nil {
		r.beats.slow = nil
		_ = c.pace(r.o.Heartbeat, r.o.Election) // they were valid before
	}
}

// pace sets how long a follower waits for its leader, and a tenth of it is what a leader
// waits between two heartbeats.
func (c *core) pace(heartbeat, election time.Duration) error {
	now := c.ReloadableConfig()
	now.HeartbeatTimeout, now.ElectionTimeout = heartbeat, election
	return c.ReloadConfig(now)
}

// beating asks for heartbeats: it is how the library sends them at any time. Whether a quorum
// answers it finds out beside it.
func (r *Raft) beating() {
	for {
		select {
		case <-r.stopped:
			return
		case <-r.beats.ask:
		}
		r.lib().VerifyLeader()
	}
}
