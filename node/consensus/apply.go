package consensus

import (
	"time"

	"github.com/hashicorp/raft"
)

// Apply puts an entry into the log and returns when it is applied here. The
// followers are nudged then. ErrNotLeader and ErrBusy: nothing was changed;
// ErrUnknown: it may have been.
func (r *Raft) Apply(data []byte) error {
	_, err := r.ApplyIndex(data)
	return err
}

// ApplyIndex is Apply that returns the entry's index.
func (r *Raft) ApplyIndex(data []byte) (uint64, error) {
	var f raft.ApplyFuture
	err := r.ask(func(c *core) raft.Future {
		f = c.Apply(data, enqueue)
		return f
	})
	if err != nil {
		return 0, err
	}
	r.Nudge()
	return f.Index(), nil
}

// Barrier returns when everything that was in the log before is applied here.
func (r *Raft) Barrier() error {
	return r.ask(func(c *core) raft.Future { return c.Barrier(enqueue) })
}

// Nudge lets the followers learn now what is committed: they do with the next
// entry, else up to twice statedAgain later. It does not wait.
func (r *Raft) Nudge() { hint(r.nudge) }

// greetEvery is how often at most Greet does anything.
const greetEvery = 50 * time.Millisecond

// Greet has the leader send its followers a heartbeat now, of which one has come back: else
// it hears with the next one, up to 300 ms later (see seldom), whom it follows, and a server
// that could not be reached is tried again after a pause. It does not wait. On a server that
// does not lead it does nothing.
func (r *Raft) Greet() {
	if r.cur.Load() == nil || r.lib().State() != raft.Leader || !r.greetings.allows(time.Now()) {
		return
	}
	r.o.Stream.hasten()
	hint(r.greet)
}

// Beat has the leader send all its followers a heartbeat now: for who is awake, as each that
// one of the library's timers sends wakes an idle process twice, and its monitor thread. Asked
// for a little more often than a timer of those ends, every 150 to 300 ms (see seldom), none
// does. They are there all the same: what is asked for waits for the leader's writes, and for
// whoever asks, and nobody's lease hangs on either. It does not wait. On a server that does
// not lead it does nothing.
func (r *Raft) Beat() {
	if c := r.cur.Load(); c != nil && c.State() == raft.Leader {
		hint(r.greet)
	}
}

// nudging turns hints into barriers, and into heartbeats. It is one goroutine: several hints
// while one is taken are one.
func (r *Raft) nudging() {
	for {
		select {
		case <-r.stopped:
			return
		case <-r.nudge:
			if r.lib().State() == raft.Leader {
				r.lib().Barrier(enqueue)
			}
		case <-r.greet:
			if r.lib().State() == raft.Leader {
				r.lib().VerifyLeader() // which is asked by heartbeats
			}
		}
	}
}

// ask makes a request of the present life, and returns its answer.
func (r *Raft) ask(f func(c *core) raft.Future) error {
	return r.do(func() error {
		c := r.cur.Load()
		return c.answer(f(c))
	})
}

// do runs a request that Raft answers, but not for longer than Raft lives.
func (r *Raft) do(f func() error) error {
	if r.closing() {
		return translate(raft.ErrRaftShutdown)
	}
	r.pending.Add(1)
	done := make(chan error, 1)
	go func() {
		defer r.pending.Add(-1)
		done <- f()
	}()
	select {
	case err := <-done:
		return translate(err)
	case <-r.stopped:
	case <-r.failed:
	}
	return translate(raft.ErrRaftShutdown)
}
