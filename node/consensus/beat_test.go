package consensus_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardway/node/consensus"
)

// asks makes s send its heartbeats on request, as a leader's node does, until stop is called.
func asks(s *server) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(97 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-end:
				return
			case <-t.C:
				s.SendHeartbeat()
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// beaten counts the heartbeats that servers receive.
func beaten(n *atomic.Int64) func(*consensus.Options) {
	return func(o *consensus.Options) { o.OnHeartbeat = func() { n.Add(1) } }
}

// A leader whose heartbeats are requested sends no others: each of those would wake the process, and each follower, at its own time.
func TestHeartbeatsThatAreAskedForAreTheOnlyOnes(t *testing.T) {
	moments := map[time.Time]int{}
	var mu sync.Mutex
	note := func(o *consensus.Options) {
		o.OnHeartbeat = func() {
			mu.Lock()
			defer mu.Unlock()
			moments[time.Now().Truncate(5*time.Millisecond)]++
		}
	}
	bubble(t, abc(), note, func(g *group) {
		l := g.leader(g.all...)
		time.Sleep(time.Second)
		mu.Lock()
		clear(moments)
		mu.Unlock()
		stop := asks(l)
		term := l.Term()
		const span = time.Minute
		time.Sleep(span)
		stop()
		mu.Lock()
		defer mu.Unlock()
		if n, want := len(moments), int(span/(97*time.Millisecond)); n < want || n > want+3 {
			g.t.Errorf("followers heard it in %d moments of a minute, want %d, all of them at once in each", n, want)
		}
		if !l.IsLeader() || l.Term() != term {
			g.t.Error("the leader was replaced")
		}
	})
}

// Requested heartbeats wait for the leader's writes. The heartbeats of its own timers do not, so a slow disk does not cost leadership, with
// or without requests.
func TestHeartbeatsGoOnWhileALeaderWrites(t *testing.T) {
	var n atomic.Int64
	bubble(t, abc(), beaten(&n), func(g *group) {
		l := g.leader(g.all...)
		defer asks(l)()
		term := l.Term()
		const write, seldomest = 1900 * time.Millisecond, 300 * time.Millisecond // seldomest is the longest expected gap between two heartbeats
		for range 5 {
			time.Sleep(time.Second)
			l.mem.SetStoreFault(func(string) error {
				time.Sleep(write)
				return nil
			})
			before := n.Load()
			g.apply(l, "slow")
			if heard, least := n.Load()-before, 2*int64(write/seldomest); heard < least {
				g.t.Errorf("%d heartbeats during a write of %v, want %d at least", heard, write, least)
			}
			l.mem.SetStoreFault(nil)
		}
		if !l.IsLeader() || l.Term() != term {
			g.t.Errorf("the leader was replaced as writes took %v", write)
		}
	})
}

// A request for heartbeats during a long write, or without a quorum, does not block, and does not extend leadership.
func TestAskingForHeartbeatsNeverWaits(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		l := g.leader(g.all...)
		for _, f := range without(g.all, l) {
			g.net.Cut(f.host.Name(), l.host.Name())
		}
		began := time.Now()
		for range 1000 {
			l.SendHeartbeat()
		}
		if took := time.Since(began); took > 0 {
			g.t.Errorf("1000 asked for took %v, want nothing", took)
		}
		if d := g.until("it steps down", func() bool { return !l.IsLeader() }); d > time.Second {
			g.t.Errorf("it led for %v without followers, want 1s at most", d)
		}
		g.net.Heal()
		defer asks(l)() // possibly as a follower
		g.apply(g.leader(g.all...), "on")
		g.agree(1, g.all...)
	})
}
