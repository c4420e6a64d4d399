package node_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"shardway/node"
)

// moments records when data arrives at or leaves a host on the streams of its peer port, and when its node reads the processor time. Events
// less than 2 ms after the previous one belong to the same moment.
type moments struct {
	mu   sync.Mutex
	last time.Time
	n    int
}

func (m *moments) note() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); now.Sub(m.last) > 2*time.Millisecond {
		m.n++
		m.last = now
	}
}

func (m *moments) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.n
}

// noted is a connection whose reads and writes are recorded.
type noted struct {
	net.Conn
	m *moments
}

// Read records a received message.
func (c noted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.m.note()
	}
	return n, err
}

// Write records a sent message.
func (c noted) Write(p []byte) (int, error) {
	c.m.note()
	return c.Conn.Write(p)
}

// counting is a clock that records each read of the node: the pulse makes at least one.
type counting struct {
	resting
	m *moments
}

// CPUTime records the read.
func (c counting) CPUTime() (time.Duration, bool) {
	c.m.note()
	return c.resting.CPUTime()
}

type noting struct {
	net.Listener
	m *moments
}

// Accept returns a connection that is recorded.
func (l noting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return noted{c, l.m}, nil
}

// The messages that wake an idle node arrive and leave together. Once, its own heartbeats, those of other nodes and those of Raft each had
// their own times: 290 moments in ten seconds at a leader, and 200 at the others. The library still sends commit indexes at its own times.
func TestIdleNodeWakesAreCoalesced(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		seen := map[string]*moments{}
		w.tune = func(o *node.Options) {
			m := &moments{}
			seen[o.Dir.Node()] = m
			o.Peer, o.Clock = noting{o.Peer, m}, counting{resting{o.Clock}, m}
			dial := o.PeerDial
			o.PeerDial = func(ctx context.Context, addr string) (net.Conn, error) {
				c, err := dial(ctx, addr)
				if err != nil {
					return nil, err
				}
				return noted{c, m}, nil
			}
		}
		w.rests = false // each node has its own clock
		w.start("a")
		w.start("b")
		w.start("c")
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		time.Sleep(10 * time.Second)
		before := map[string]int{}
		for name, m := range seen {
			before[name] = m.count()
		}
		const span = 10 * time.Second
		time.Sleep(span)
		leader := w.leader()
		for name, m := range seen {
			most := 135
			if name == leader.name {
				most = 150
			}
			if n := m.count() - before[name]; n > most {
				w.t.Errorf("%s, leads %v: something came, left or was looked at in %d moments of %v, want %d at most", name, name == leader.name, n, span, most)
			}
		}
	})
}

// leastLeases returns the shortest remaining lease of each node, in milliseconds, in 3000 samples within a span.
func (w *world) leastLeases(span time.Duration) map[string]int64 {
	least := map[string]int64{}
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(span / 3000) {
		for _, p := range w.running() {
			left := p.node.API().Status().LeaseMS
			if was, ok := least[p.name]; !ok || left < was {
				least[p.name] = left
			}
		}
	}
	return least
}

// Every voter confirms the answers of the leader, so every lease counts from an answer of the last
// heartbeat interval. This applies to leaders, followers and nonvoters, although all voters send their
// heartbeats at nearly the same time.
func TestEveryLeaseCountsFromAnAnswerOfTheLastInterval(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ nodes, voters int }{{3, 3}, {5, 3}, {5, 5}}[:share(3, 1)] {
		bubble(t, func(w *world) {
			names := []string{"a", "b", "c", "d", "e"}[:c.nodes]
			w.tune = func(o *node.Options) { o.MaxVoters, o.RemoveDeadAfter = c.voters, time.Minute }
			for _, name := range names {
				w.start(name)
			}
			w.untilSettled(names...)
			w.untilVoters(c.voters)
			time.Sleep(20 * time.Second)
			for name, left := range w.leastLeases(5 * time.Second) {
				if left < 290 {
					w.t.Errorf("%d of %d nodes vote, and %s, leads %v, has a lease of down to %d ms, want 300 or nearly", c.voters, c.nodes, name, w.leader().name == name, left)
				}
			}
		})
	}
}

// A node sends one heartbeat in each interval, and a following voter a second one, which confirms
// the answer.
func TestOnlyAFollowingVoterSendsTwoHeartbeatsPerInterval(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		names := []string{"a", "b", "c", "d"}
		w.tune = func(o *node.Options) { o.MaxVoters, o.RemoveDeadAfter = 3, time.Minute }
		for _, name := range names {
			w.start(name)
		}
		w.untilSettled(names...)
		w.untilVoters(3)
		time.Sleep(10 * time.Second)
		answers := func(p *process) float64 { return value(p.gathered(), "shardway_heartbeat_round_trip_seconds", "") }
		before := map[string]float64{}
		for _, p := range w.running() {
			before[p.name] = answers(p)
		}
		const span = time.Minute
		time.Sleep(span)
		confirming := 0
		for _, p := range w.running() {
			heartbeats, perInterval := answers(p)-before[p.name], 1.0
			if heartbeats > float64(span/(100*time.Millisecond))*1.5 {
				confirming++
				perInterval = 2
			}
			least, most := perInterval*float64(span/(105*time.Millisecond)), perInterval*float64(span/(95*time.Millisecond))
			if leads := w.leader().name == p.name; heartbeats < least || heartbeats > most || leads && perInterval == 2 {
				w.t.Errorf("%s, leads %v: it has sent %v heartbeats in %v, want %v to %v", p.name, leads, heartbeats, span, least, most)
			}
		}
		if confirming != 2 {
			w.t.Errorf("%d nodes have sent two heartbeats per interval, want the two voters that follow", confirming)
		}
	})
}
