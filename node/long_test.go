package node_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"shardway/ack"
	"shardway/internal/simnet"
)

// failures returns the number of failed requests that are the fault of a node. A response of 200, and a dial at a moment without a
// listener, are not.
func (s *storm) failures() int {
	failed := 0
	for what, n := range s.witness.tally() {
		if what != strconv.Itoa(http.StatusOK) && what != "nobody listens" {
			failed += n
		}
	}
	return failed
}

// quiet waits until no request is in flight.
func (s *storm) quiet() {
	s.t.Helper()
	load := s.load
	s.load = 0
	s.until("all requests are answered", func() bool { return s.c.wait.Load() == 0 })
	s.load = load
}

func TestRollingRestartFailsNoRequest(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{3, 5, 7}[:share(3, 1)] {
		t.Run(strconv.Itoa(nodes), func(t *testing.T) {
			t.Parallel()
			loaded(t, nodes, func(s *storm) {
				began := time.Now()
				for _, n := range s.names {
					p := s.all[n]
					p.stop()
					s.until(n+" has ended", p.ended)
					if p.err != nil {
						s.t.Fatalf("Run() of %s = %v, want nil", n, p.err)
					}
					s.until("the others serve", func() bool { return s.settled(s.others(p)...) })
					s.revive(p)
					s.until("all serve", s.whole)
				}
				s.quiet()
				if failed := s.failures(); failed > 0 {
					s.t.Errorf("%d requests failed: %v", failed, s.witness.tally())
				}
				s.t.Logf("%d nodes restarted in %v: %d maps moved %d shards; the longest request took %v", nodes, time.Since(began), s.maps, s.moved, s.witness.longest())
			})
		})
	}
}

func TestTwentyJoinsInAStorm(t *testing.T) {
	t.Parallel()
	loaded(t, 1, func(s *storm) {
		began, maps, moved := time.Now(), s.maps, s.moved
		joins := share(20, 8)
		for i := range joins {
			s.add(fmt.Sprintf("n%02d", i+1), newcomer)
			s.live(s.upTo(50 * time.Millisecond))
		}
		s.until("all serve", s.whole)
		s.until(fmt.Sprintf("each node owns %d shards or one more", shards/(joins+1)), func() bool { // busy shards move last
			for _, m := range s.committed().Members() {
				if c := s.committed().ShardCount(m.ID); c < shards/(joins+1) || c > shards/(joins+1)+1 {
					return false
				}
			}
			return len(s.committed().Members()) == joins+1
		})
		s.t.Logf("%d nodes joined in %v by %d maps that moved %d shards", joins, time.Since(began), s.maps-maps, s.moved-moved)
		s.quiet()
		if failed := s.failures(); failed > 0 {
			s.t.Errorf("%d requests failed: %v", failed, s.witness.tally())
		}
	})
}

// With a packet loss of 30 %, segments arrive 200 ms late or later, so leases expire and leaders change. Each shard has one owner at a
// time, requests get responses, and the test logs the cost.
func TestLossyNetworkStillServes(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{3, 5}[:share(2, 1)] {
		t.Run(strconv.Itoa(nodes), func(t *testing.T) {
			t.Parallel()
			loaded(t, nodes, func(s *storm) {
				s.witness.cut(s.names...)
				s.links(simnet.Link{Latency: time.Millisecond, Jitter: time.Millisecond, Loss: 0.3})
				maps, moved := s.maps, s.moved
				leased, looks := 0, 0
				s.moment = func() {
					for _, p := range s.running() {
						if looks++; p.node.Leased() {
							leased++
						}
					}
					s.pass()
				}
				for range share(6, 1) {
					before := s.witness.tally()["200"]
					for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
						s.moment()
					}
					if s.witness.tally()["200"] == before {
						s.t.Error("no request was answered in 10 s")
					}
				}
				s.moment = s.pass
				s.t.Logf("%d nodes, %d s: %d maps moved %d shards, a lease %d %% of the time, answers %v", nodes, share(60, 10), s.maps-maps, s.moved-moved, 100*leased/looks, s.witness.tally())
				s.heal()
				s.until("all serve", s.whole)
			})
		})
	}
}

// Forged resets between nodes may cost, depending on the takeover: nothing, requests of the old owner that continue for a while, or two
// nodes that admit requests.
func TestForgedResetsCostWhatTheTakeoverAllows(t *testing.T) {
	t.Parallel()
	for _, takeover := range []ack.Takeover{ack.TakeoverTimeout, ack.TakeoverLease, ack.TakeoverImmediate} {
		bubble(t, func(w *world) {
			s := newStorm(w, 1, takeover)
			s.long = true
			s.raise(3)
			for range share(10, 1) {
				l, p := s.leader(), s.follower()
				s.witness.reset(l.name, p.name)
				s.net.Reset(l.name, p.name)
				s.live(time.Second)
				s.heal()
				s.until("all serve", s.whole)
			}
			s.account()
		})
	}
}
