package gossip_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"shardway/internal/clock"
	"shardway/node/gossip"
)

// counted counts what memberlist begins to send.
type counted struct {
	memberlist.NodeAwareTransport
	packets, streams *atomic.Int64
}

func (c counted) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	c.packets.Add(1)
	return c.NodeAwareTransport.WriteToAddress(b, a)
}

func (c counted) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	c.streams.Add(1)
	return c.NodeAwareTransport.DialAddressTimeout(a, d)
}

// Each timer of memberlist's own woke a node at rest several times, nine a second in all.
func TestGossipGoesByThePulseAlone(t *testing.T) {
	bubble(t, func(s *swarm) {
		var packets, streams atomic.Int64
		s.tap = func(tr memberlist.NodeAwareTransport) memberlist.NodeAwareTransport {
			return counted{tr, &packets, &streams}
		}
		s.pulse = new(clock.Pulse)
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		s.whole(a, b) // by the exchange of a join, which no pulse is for
		sent := func() (int64, int64) {
			p, n := packets.Load(), streams.Load()
			time.Sleep(time.Minute)
			return packets.Load() - p, streams.Load() - n
		}
		sent() // b asks its join address for a while
		if p, n := sent(); p != 0 || n != 0 {
			s.t.Errorf("%d packets and %d streams in a minute without a beat", p, n)
		}
		ctx, cancel := context.WithCancel(s.t.Context())
		defer cancel()
		go s.pulse.Run(ctx)
		sent()
		// Two questions a second each, as many answers, and every now and then a round is over: what
		// it was by the timers.
		if p, n := sent(); p < 200 || p > 340 || n < 11 || n > 13 {
			s.t.Errorf("%d packets and %d streams in a minute, want about 270 and 12", p, n)
		}
		a.stop()
		b.stop()
		synctest.Wait()
		if p, n := sent(); p != 0 || n != 0 {
			s.t.Errorf("%d packets and %d streams after the end", p, n)
		}
	})
}

// A probe of one that is gone takes half a second at least.
func TestProbesHoldUpNoGossip(t *testing.T) {
	bubble(t, func(s *swarm) {
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		c := s.add("c", node("c"), a.host.Addr(port))
		s.whole(a, b, c)
		time.Sleep(time.Minute)
		c.host.Crash()
		tags := node("a")
		for a.sees("c") == gossip.Alive {
			tags.Weight++
			if err := a.SetTags(tags); err != nil {
				s.t.Fatal(err)
			}
			took := s.until("b has heard of it", func() bool {
				for _, m := range b.Members() {
					if m.ID == "a" {
						return m.Tags.Weight == tags.Weight
					}
				}
				return false
			})
			if took > 500*time.Millisecond {
				s.t.Errorf("b heard of weight %d after %v", tags.Weight, took)
			}
		}
		c.stop()
	})
}

// Leave waits until somebody was told, and whoever ends a node does not wait for Leave.
func TestGoodbyeIsSaidWhileTheNodeEnds(t *testing.T) {
	bubble(t, func(s *swarm) {
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		c := s.add("c", node("c"), a.host.Addr(port))
		s.whole(a, b, c)
		time.Sleep(time.Minute)
		s.lines()
		gone, cancel := context.WithCancel(s.t.Context())
		cancel()
		_ = b.Leave(gone) // which goes on
		b.stop()
		s.until("b has left", func() bool { return a.sees("b") == gossip.Left && c.sees("b") == gossip.Left })
		for _, l := range s.lines() {
			if strings.Contains(l, "timeout") {
				s.t.Error(l)
			}
		}
	})
}
