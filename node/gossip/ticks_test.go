package gossip_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"shardway/internal/clock"
	"shardway/node/gossip"
)

// counted counts the packets and streams that memberlist starts to send.
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

// Gossip sends only when the scheduler ticks. Once, the timers of memberlist woke an idle node several times each, nine times a second in
// all.
func TestGossipIntervalsUseOnlyTheScheduler(t *testing.T) {
	bubble(t, func(s *swarm) {
		var packets, streams atomic.Int64
		s.tap = func(tr memberlist.NodeAwareTransport) memberlist.NodeAwareTransport {
			return counted{tr, &packets, &streams}
		}
		s.pulse = new(clock.Scheduler)
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		s.whole(a, b) // by the state exchange of the join, which needs no tick
		sent := func() (int64, int64) {
			p, n := packets.Load(), streams.Load()
			time.Sleep(time.Minute)
			return packets.Load() - p, streams.Load() - n
		}
		sent() // b dials its join address for a while
		if p, n := sent(); p != 0 || n != 0 {
			s.t.Errorf("%d packets and %d streams in a minute without a beat", p, n)
		}
		ctx, cancel := context.WithCancel(s.t.Context())
		defer cancel()
		go s.pulse.Run(ctx)
		sent()
		// Two probes a second each, as many responses, and now and then the end of a round: the same as with the timers. A minute contains
		// six or seven state exchanges of each of the two.
		if p, n := sent(); p < 200 || p > 340 || n < 11 || n > 14 {
			s.t.Errorf("%d packets and %d streams in a minute, want about 270, and 12 to 14", p, n)
		}
		a.stop()
		b.stop()
		synctest.Wait()
		if p, n := sent(); p != 0 || n != 0 {
			s.t.Errorf("%d packets and %d streams after the end", p, n)
		}
	})
}

// Probes of dead members do not delay gossip. Each takes at least half a second, and here two of three members are dead.
func TestProbesHoldUpNoGossip(t *testing.T) {
	bubble(t, func(s *swarm) {
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		all := []*member{a, b}
		for _, name := range []string{"c", "d"} { // with b, as many members as a tick sends to
			all = append(all, s.add(name, node(name), a.host.Addr(port)))
		}
		s.whole(all...)
		time.Sleep(time.Minute)
		tags := node("a")
		var late []time.Duration
		for range 12 {
			s.net.Partition([]string{"a", "b"}, []string{"c"}, []string{"d"})
			for a.sees("c") == gossip.Alive || a.sees("d") == gossip.Alive {
				time.Sleep(time.Second) // the previous update has been sent often enough, because tags are sent one by one
				tags.Weight++
				if err := a.SetTags(tags); err != nil {
					s.t.Fatal(err)
				}
				took := s.until("b has heard of it", func() bool {
					i := slices.IndexFunc(b.Members(), func(m gossip.Member) bool { return m.ID == "a" })
					return b.Members()[i].Tags.Weight == tags.Weight
				})
				if took > 300*time.Millisecond {
					late = append(late, took)
				}
			}
			s.net.Heal()
			s.whole(all...)
		}
		if len(late) > 2 { // the targets of a tick are random: sometimes b is not among them
			s.t.Errorf("b heard of %d of %d tags after %v", len(late), tags.Weight-1, late)
		}
	})
}

// Leave waits until a member has received the message, but the shutdown of a node does not wait for Leave.
func TestLeaveIsBroadcastDuringShutdown(t *testing.T) {
	bubble(t, func(s *swarm) {
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		c := s.add("c", node("c"), a.host.Addr(port))
		s.whole(a, b, c)
		time.Sleep(time.Minute)
		s.lines()
		gone, cancel := context.WithCancel(s.t.Context())
		cancel()
		_ = b.Leave(gone) // it continues in the background
		b.stop()
		s.until("b has left", func() bool { return a.sees("b") == gossip.Left && c.sees("b") == gossip.Left })
		for _, l := range s.lines() {
			if strings.Contains(l, "timeout") {
				s.t.Error(l)
			}
		}
	})
}
