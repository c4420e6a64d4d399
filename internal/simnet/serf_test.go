package simnet_test

import (
	"io"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"

	"shardway/internal/simnet"
)

const gossipPort = 7946

// member is a Serf agent on a host, its events drained.
type member struct {
	*serf.Serf
	host *simnet.Host
}

// gossip starts Serf on h with the settings nodes use.
func gossip(t *testing.T, h *simnet.Host) *member {
	t.Helper()
	tr, err := h.Transport(gossipPort)
	if err != nil {
		t.Fatal(err)
	}
	quiet := log.New(io.Discard, "", 0)
	mc := memberlist.DefaultLANConfig()
	mc.Transport = tr
	mc.AdvertiseAddr, mc.AdvertisePort = h.IP().String(), gossipPort
	mc.ProbeInterval, mc.ProbeTimeout = 500*time.Millisecond, 200*time.Millisecond
	mc.SuspicionMult, mc.GossipInterval = 4, 100*time.Millisecond
	mc.Logger = quiet
	c := serf.DefaultConfig()
	c.NodeName = h.Name()
	c.ReconnectInterval = 2 * time.Second
	c.MemberlistConfig, c.Logger = mc, quiet
	events := make(chan serf.Event, 1024)
	c.EventCh = events
	s, err := serf.Create(c)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			select {
			case <-events:
			case <-s.ShutdownCh():
				return
			}
		}
	}()
	return &member{Serf: s, host: h}
}

// sees reports whether m's view of name is the status.
func (m *member) sees(name string, want serf.MemberStatus) bool {
	for _, o := range m.Members() {
		if o.Name == name {
			return o.Status == want
		}
	}
	return false
}

// until waits for the condition and returns how long it took.
func until(t *testing.T, what string, f func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !f() {
		if time.Since(start) > 2*time.Minute {
			t.Fatalf("not after two minutes: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(start)
}

// swarm returns three members that have joined. They end with the test's
// bubble.
func swarm(t *testing.T, c simnet.Config) (*simnet.Net, []*member) {
	t.Helper()
	network := simnet.New(c)
	var ms []*member
	t.Cleanup(func() {
		network.Close()
		for _, m := range ms {
			_ = m.Shutdown()
		}
		// Serf leaves goroutines that end with their next tick.
		time.Sleep(10 * time.Minute)
	})
	for _, name := range []string{"a", "b", "c"} {
		ms = append(ms, gossip(t, network.Host(name)))
	}
	for _, m := range ms[1:] {
		if _, err := m.Join([]string{ms[0].host.Addr(gossipPort)}, true); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all see all", func() bool { return all(ms, ms, serf.StatusAlive) })
	return network, ms
}

func all(who, whom []*member, want serf.MemberStatus) bool {
	for _, m := range who {
		for _, o := range whom {
			if m != o && !m.sees(o.host.Name(), want) {
				return false
			}
		}
	}
	return true
}

func TestSerfReportsCrashAndReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m := swarm(t, simnet.Config{})
		m[2].host.Crash()
		d := until(t, "c failed", func() bool { return all(m[:2], m[2:], serf.StatusFailed) })
		t.Logf("crash seen by all after %v", d)
		_ = m[2].Shutdown()
		m[2] = gossip(t, m[2].host.Restart())
		if _, err := m[2].Join([]string{m[0].host.Addr(gossipPort)}, true); err != nil {
			t.Fatal(err)
		}
		until(t, "c back", func() bool { return all(m, m, serf.StatusAlive) })
	})
}

func TestSerfPartitionHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, m := swarm(t, simnet.Config{})
		network.Partition([]string{"a", "b"}, []string{"c"})
		until(t, "sides lose each other", func() bool {
			return all(m[:2], m[2:], serf.StatusFailed) && all(m[2:], m[:2], serf.StatusFailed)
		})
		if !all(m[:2], m[:2], serf.StatusAlive) {
			t.Error("the majority lost itself")
		}
		network.Heal()
		d := until(t, "healed", func() bool { return all(m, m, serf.StatusAlive) })
		t.Logf("whole again after %v, by Serf's own reconnects", d)
	})
}

func TestSerfFreezeAndThaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m := swarm(t, simnet.Config{})
		m[1].host.Freeze()
		until(t, "b failed", func() bool { return all([]*member{m[0], m[2]}, m[1:2], serf.StatusFailed) })
		m[1].host.Thaw()
		until(t, "b back", func() bool { return all(m, m, serf.StatusAlive) })
	})
}

func TestSerfToleratesLossAndLatency(t *testing.T) {
	link := simnet.Link{Latency: 20 * time.Millisecond, Jitter: 20 * time.Millisecond, Loss: 0.05}
	synctest.Test(t, func(t *testing.T) {
		_, m := swarm(t, simnet.Config{Seed: 1, Link: link})
		time.Sleep(5 * time.Minute)
		until(t, "all alive", func() bool { return all(m, m, serf.StatusAlive) })
	})
}

func TestSerfReportsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, m := swarm(t, simnet.Config{})
		if err := m[2].Leave(); err != nil {
			t.Fatal(err)
		}
		until(t, "c left", func() bool { return all(m[:2], m[2:], serf.StatusLeft) })
	})
}
