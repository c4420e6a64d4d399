package consensus_test

import (
	"sync/atomic"
	"testing"
	"time"

	"shardway/node/consensus"
)

// beats has s asked for heartbeats, as an idle leader is, until the returned function is called.
func beats(s *server) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(100 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-end:
				return
			case <-t.C:
				s.Beat()
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// counted has the servers of a bubble count what the others state to them.
func counted(n *atomic.Int64) func(*consensus.Options) {
	return func(o *consensus.Options) {
		o.Stated = func(string, uint64) { n.Add(1) }
	}
}

// A leader that is asked for its heartbeats sends no others: each would wake the process,
// and each follower.
func TestHeartbeatsThatAreAskedForAreTheOnlyOnes(t *testing.T) {
	var heard atomic.Int64
	bubble(t, abc(), counted(&heard), func(g *group) {
		l := g.leader(g.all...)
		defer beats(l)()
		term := l.Term()
		time.Sleep(10 * time.Second)
		heard.Store(0)
		const span = time.Minute
		time.Sleep(span)
		// To two followers; and what is committed up to four times a second, which is answered.
		most := 2 * int64(span/(100*time.Millisecond)+2*4*span/time.Second)
		if n := heard.Load(); n > most*21/20 {
			g.t.Errorf("%d words in a minute, want %d or a few more", n, most)
		}
		if !l.IsLeader() || l.Term() != term {
			g.t.Error("the leader was replaced")
		}
	})
}

// Heartbeats that are asked for wait for the leader's writes, so the others come back with
// the first request that writes, and stay while it is under way.
func TestHeartbeatsGoOnWhileALeaderWrites(t *testing.T) {
	var heard atomic.Int64
	bubble(t, abc(), counted(&heard), func(g *group) {
		l := g.leader(g.all...)
		defer beats(l)()
		term := l.Term()
		const write = 1900 * time.Millisecond
		for range 5 {
			time.Sleep(5 * time.Second)
			l.mem.SetFault(func(string) error {
				time.Sleep(write)
				return nil
			})
			heard.Store(0)
			g.apply(l, "slow")
			if n, least := heard.Load(), 2*int64(write/(100*time.Millisecond))*6/5; n < least {
				g.t.Errorf("%d words during a write of %v, want %d at least", n, write, least)
			}
			l.mem.SetFault(nil)
		}
		if !l.IsLeader() || l.Term() != term {
			g.t.Errorf("the leader was replaced as writes took %v", write)
		}
	})
}

// Who was asked for heartbeats and leads no more waits for its leader as long as others do.
func TestFormerLeaderWaitsNoLongerForItsLeader(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		first := g.leader(g.all...)
		stop := beats(first)
		time.Sleep(10 * time.Second)
		stop()
		g.net.Isolate(first.host.Name())
		rest := without(g.all, first)
		second := g.leader(rest...)
		g.net.Heal()
		g.leader(g.all...)
		without(rest, second)[0].crash() // it would stand instead
		second.crash()
		began := time.Now()
		g.until("the first one stands", func() bool { return first.Candidate() })
		if took := time.Since(began); took > 1500*time.Millisecond {
			g.t.Errorf("it stood for election after %v, want three times Options.Heartbeat at most", took)
		}
	})
}

// A server that is back hears its leader's heartbeats as soon as ever: with slow timers the
// library would wait for seconds after one that failed.
func TestServerThatIsBackHearsHeartbeatsAtOnce(t *testing.T) {
	var heard atomic.Int64
	back := false
	count := func(o *consensus.Options) {
		if back {
			counted(&heard)(o)
		}
	}
	bubble(t, abc(), count, func(g *group) {
		l := g.leader(g.all...)
		defer beats(l)()
		f := without(g.all, l)[0]
		for i := range 5 {
			f.crash()
			time.Sleep(time.Minute + time.Duration(i)*900*time.Millisecond)
			back = true
			heard.Store(0)
			f.restart()
			time.Sleep(time.Second)
			if n := heard.Load(); n < 7 {
				g.t.Errorf("%d words in the first second, want 7 at least", n)
			}
		}
	})
}
