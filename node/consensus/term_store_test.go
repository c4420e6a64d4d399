package consensus_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"shardway/node/consensus"
)

// The term of a server never decreases. Once, two servers lost their leader and one of them campaigned. While it wrote its new term, the
// heartbeats of the old leader returned, and it fell back to the old term in memory and on its disk. It had already announced the new term
// to the others.
func TestTermNeverFalls(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		old := g.leader(g.all...)
		rest := without(g.all, old)
		var writing atomic.Bool
		for _, s := range rest {
			s.mem.SetStoreFault(func(op string) error {
				if op == "write term" {
					writing.Store(true)
					time.Sleep(time.Second)
				}
				return nil
			})
		}
		g.net.Isolate(old.host.Name())
		g.until("one stands for election", writing.Load)
		time.Sleep(500 * time.Millisecond)
		g.net.Heal()
		highest := map[*server]uint64{}
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			for _, s := range g.all {
				if term := s.Term(); term < highest[s] {
					g.t.Fatalf("%s is in term %d, and was in term %d", s.id(), term, highest[s])
				} else {
					highest[s] = term
				}
			}
		}
	})
}

// A heartbeat is handled outside the main loop only if it does not change the term, arrived at the current instance, and no term is being
// written. No term is written while such a heartbeat is handled.
func TestOnlyNeutralHeartbeatsBypassTheMainLoop(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		f := without(g.all, l)[0]
		term := f.Term()
		nothing := func() {}
		held := false
		if !f.HandleHeartbeat(term, true, func() { held = f.TermHeld() }) || !held {
			t.Errorf("a heartbeat of the follower's term is not taken, or its term could be written meanwhile: held %v", held)
		}
		if f.TermHeld() {
			t.Error("no term can be written after it")
		}
		for name, taken := range map[string]bool{
			"of a later term":         f.HandleHeartbeat(term+1, true, nothing),
			"of an earlier term":      f.HandleHeartbeat(term-1, true, nothing),
			"that came to no life":    f.HandleHeartbeat(term, false, nothing),
			"that comes to who leads": l.HandleHeartbeat(term, true, nothing),
		} {
			if taken {
				t.Errorf("a heartbeat %s is taken beside the loop", name)
			}
		}
		g.net.Isolate(f.host.Name())
		wrote := false
		f.mem.SetStoreFault(func(op string) error {
			if op == "write term" {
				wrote = true
				if f.HandleHeartbeat(term, true, nothing) {
					t.Error("a heartbeat is taken while a term is written")
				}
			}
			return nil
		})
		if _, err := f.Ask(l.id(), func(h raft.RPCHeader) any {
			return &raft.RequestVoteRequest{RPCHeader: h, Term: term + 1, LeadershipTransfer: true}
		}); err != nil || !wrote {
			t.Errorf("asked for a vote: %v, a term was written: %v", err, wrote)
		}
		f.mem.SetStoreFault(nil)
	})
}

// A server enters a new term while a heartbeat of the old leader is handled. The library then follows the old leader in the new term.
// LeaderOfTerm must not, because the new term has another leader.
func TestLeaderOfTermIsNotTheLeaderOfAnEarlierTerm(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		old := g.leader(g.all...)
		rest := without(g.all, old)
		f, candidate := rest[0], rest[1]
		term := f.Term()
		g.until("the follower knows the leader of the term", func() bool {
			known, leader := f.LeaderOfTerm()
			return known == term && leader == old.host.Name()
		})
		if known, leader := old.LeaderOfTerm(); known != term || leader != old.host.Name() {
			t.Errorf("the leader of term %d names %q in term %d", term, leader, known)
		}
		g.net.Isolate(f.host.Name())
		voted := make(chan error, 1)
		f.HandleHeartbeat(term, true, func() {
			go func() {
				_, err := f.Ask(candidate.id(), func(h raft.RPCHeader) any {
					return &raft.RequestVoteRequest{RPCHeader: h, Term: term + 1, LeadershipTransfer: true}
				})
				voted <- err
			}()
			for f.Leader() != "" { // until the server writes the new term, which waits for the end of this heartbeat
				runtime.Gosched()
			}
			f.LibraryHeartbeat(old.id(), term)
		})
		if err := <-voted; err != nil {
			t.Fatal(err)
		}
		if f.Term() != term+1 || f.Leader() != old.host.Name() {
			t.Fatalf("the library follows %q in term %d, want the old leader in the new term", f.Leader(), f.Term())
		}
		if known, leader := f.LeaderOfTerm(); known != term+1 || leader != "" {
			t.Errorf("the leader of term %d is %q, want none in term %d", known, leader, term+1)
		}
	})
}

// A candidate that receives a message of another leader of its own term does not write that term again: the write would delay what follows.
// A heartbeat that is handled outside the main loop would wait for itself.
func TestATermIsWrittenOnce(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		s := without(g.all, g.leader(g.all...))[0]
		g.net.Isolate(s.host.Name())
		writes := 0
		s.mem.SetStoreFault(func(op string) error {
			if op == "write term" {
				writes++
			}
			return nil
		})
		next := s.Term() + 100
		for i, want := range []int{1, 1, 1} {
			if err := s.WriteTerm(next); err != nil || writes != want {
				t.Errorf("written for time %d: %v, %d writes, want %d", i+1, err, writes, want)
			}
		}
		s.mem.SetStoreFault(nil)
	})
}

// The first write of an instance writes the term that the disk already has, which shows whether the disk can be written.
func TestInstanceStartsWithATermWrite(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		s := without(g.all, g.leader(g.all...))[0]
		s.crash()
		s.mem.SetStoreFault(func(op string) error {
			if op == "write term" {
				return errors.New("read-only file system")
			}
			return nil
		})
		dir, err := s.mem.Open(s.host.Name())
		if err != nil {
			t.Fatal(err)
		}
		s.dir = dir
		defer func() { _ = dir.Close() }()
		dial := func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
		if r, err := s.open(consensus.NewStream(s.id(), dial)); err == nil {
			t.Error("it has begun on a disk that cannot be written")
			_ = r.Shutdown(t.Context())
		}
		s.mem.SetStoreFault(nil)
	})
}

// A server that waits for its disk still receives heartbeats of its leader. The main loop does not, and once a follower with a slow disk
// knew no leader until the next heartbeat.
func TestFollowerReceivesHeartbeatsDuringWrite(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		f := without(g.all, l)[0]
		term := f.Term()
		for range 5 {
			time.Sleep(time.Second)
			slow(1900*time.Millisecond, f)
			g.apply(l, "slow")
			for began := time.Now(); time.Since(began) < 6*time.Second; time.Sleep(time.Millisecond) {
				if f.Leader() != l.host.Name() || f.Term() != term {
					t.Fatalf("%v after a write began it follows %q in term %d, want %q in term %d", time.Since(began), f.Leader(), f.Term(), l.host.Name(), term)
				}
			}
			f.mem.SetStoreFault(nil)
		}
	})
}
