package peerpath

import (
	"net"
	"slices"
	"testing"
	"time"

	"shardway/internal/coarsetime"
	"shardway/proxy/connpool"
	"shardway/proxy/h1"
)

// observation is a path observer with fixed kernel values.
type observation struct {
	silent time.Duration
	probes int
	ok     bool
}

func (e observation) SilentFor() (d time.Duration, probes int, ok bool) {
	return e.silent, e.probes, e.ok
}

// One lost probe on one of several connections aborts no request, because other connections have
// received data within a second. A peer counts as silent when all its connections are silent and two
// of them have sent probes.
func TestSilentPeerIsSilentOnEveryConn(t *testing.T) {
	const s = time.Second
	asked, closed := observation{s + 80*time.Millisecond, 1, true}, observation{}
	for name, tc := range map[string]struct {
		ears []pathObserver
		want bool
	}{
		"one connection":            {[]pathObserver{asked}, false},
		"two that asked":            {[]pathObserver{asked, asked}, true},
		"one hears":                 {[]pathObserver{asked, asked, observation{s - 1, 0, true}}, false},
		"one hears, first":          {[]pathObserver{observation{0, 0, true}, asked, asked}, false},
		"one is closed":             {[]pathObserver{asked, closed}, false},
		"one has not asked":         {[]pathObserver{asked, observation{s, 0, true}}, false},
		"many, some closed":         {[]pathObserver{closed, asked, asked, closed, observation{3 * s, 2, true}}, true},
		"nothing is known of paths": {[]pathObserver{closed, closed}, false},
	} {
		if got := allSilent(slices.Values(tc.ears), 2); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// When two requests wait for a silent peer, the first one is aborted, and the second one remains
// alone. The decision is remembered, so that the second one does not wait for more evidence.
func TestPeerSilenceIsRemembered(t *testing.T) {
	p, h := &connpool.Pool{}, &Detector{ConnsInUse: slices.Values([]*connpool.Conn(nil))}
	at := 10 * time.Second
	h.Begin(true, at)
	h.silentPeers = map[*connpool.Pool]peerSilence{p: {at, true}}
	if !h.isSilent(p, at) {
		t.Error("forgotten within the sweep")
	}
	h.Begin(true, at+time.Second)
	if !h.silentPeers[p].silent {
		t.Error("forgotten within a second")
	}
	if h.isSilent(p, at+time.Second) {
		t.Error("nobody heard it, and nobody asked")
	}
	h.silentPeers[p] = peerSilence{at, true}
	h.Begin(true, at+time.Second+1)
	if len(h.silentPeers) != 0 {
		t.Error("remembered for longer")
	}
}

// carried is a stream of a mux session over c.
type carried struct {
	connpool.MuxStream
	c net.Conn
}

func (l carried) SessionConn() net.Conn { return l.c }

// All streams of a session share one path and count as one witness. Connections in addition to it, in
// use or idle, are further witnesses.
func TestSessionCountsAsOneWitness(t *testing.T) {
	first, second := &net.TCPConn{}, &net.TCPConn{}
	clock := new(coarsetime.Clock)
	clock.Start(time.Now())
	p := connpool.New(connpool.Options{Node: "owner", Clock: clock})
	connected := func(c net.Conn) *connpool.Conn {
		return &connpool.Conn{Conn: h1.NewConn(c, h1.Options{}), Pool: p}
	}
	on := func(c net.Conn) *connpool.Conn {
		l := connected(c)
		l.Mux = carried{c: c}
		return l
	}
	for _, l := range []*connpool.Conn{on(first), on(second), on(first), connected(first), connected(second)} {
		p.Put(l)
	}
	n := 0
	h := &Detector{ConnsInUse: slices.Values([]*connpool.Conn{on(second)})}
	for range h.peerConns(p) {
		n++
	}
	if n != 4 {
		t.Errorf("%d witnesses, want two trunks and two connections", n)
	}
}

// Whether a peer is silent is decided over all connections to it, because an idle WebSocket may have
// received data.
func TestPeerSilenceNeedsCompleteSweep(t *testing.T) {
	carrier, p := &net.TCPConn{}, &connpool.Pool{}
	l := &connpool.Conn{Pool: p, Mux: carried{c: carrier}}
	doubt := func(h *Detector, whole bool, now time.Duration) (dead bool, nextCheck time.Duration) {
		h.Begin(whole, now)
		h.silentPeers = map[*connpool.Pool]peerSilence{p: {now, true}}
		h.paths = []sharedPath{{conn: carrier, checked: true, state: h1.PathSuspect, nextCheck: 75 * time.Millisecond}}
		return h.IsDead(l, now)
	}
	// A suspicion starts a ping. After its timeout, all connections are checked.
	var h Detector
	const then = time.Minute + 75*time.Millisecond
	if dead, next := doubt(&h, false, time.Minute); dead || h.nextSweepAt != then || next != then {
		t.Errorf("dead: %t, next check at %v, complete sweep at %v; want both at %v, and the path not dead", dead, next, h.nextSweepAt, then)
	}
	if h.Begin(false, time.Minute+time.Millisecond); h.NeedsCompleteSweep(then-1) || !h.NeedsCompleteSweep(then) {
		t.Error("an incomplete sweep has changed the time of the complete one")
	}
	if dead, _ := doubt(&h, true, then); !dead {
		t.Error("a complete sweep has not found the dead path")
	}
}
