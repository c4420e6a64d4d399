package proxy

import (
	"cmp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"shardway/shardmap"
)

// legBy says how a leg of a kept socket came about.
type legBy uint8

const (
	legFirst   legBy = iota // its client asked for the socket
	legPlanned              // the one before was handed over
	legGap                  // the one before broke: messages may be missing
	legBys
)

var legByNames = [legBys]string{"first", "planned", "gap"}

// legEnd says what became of a kept socket whose leg is over, at the node that has its
// client.
type legEnd uint8

const (
	legHandedOver legEnd = iota // another one follows, and nothing is missing
	legBroken                   // another one follows, with a gap
	legClosed                   // the client or the app sent Close
	legEnded                    // the app ended without Close, or inside a message, and so did the client's connection
	legAgain                    // the client was told to come again
	legProtocol                 // the client or the app broke the protocol
	legGone                     // the client went
	legEnds
)

var legEndNames = [legEnds]string{"handed-over", "gap", "closed", "ended", "come-again", "protocol", "client-gone"}

// socketEnd says what came of a kept socket that was without a leg.
type socketEnd uint8

const (
	socketResumed socketEnd = iota // it has the next one
	socketRefused                  // the app answered with something else
	socketLate                     // nobody took it in time, or this node leaves
	socketGone                     // the client went
	socketEnds
)

var socketEndNames = [socketEnds]string{"resumed", "refused", "late", "client-gone"}

// socketState is what a kept socket is doing.
type socketState uint32

const (
	socketAttached socketState = iota + 1 // it has a leg
	socketDetached                        // it waits for the next one
)

// String names the state in metrics.
func (x socketState) String() string {
	switch x {
	case socketAttached:
		return "attached"
	case socketDetached:
		return "detached"
	}
	return "socketState(" + strconv.Itoa(int(x)) + ")"
}

// standing is what others may know of a kept socket, at the node that has its client.
type standing struct {
	// state is zero before the first leg and after the last. What is below is written
	// before, and never again.
	state atomic.Uint32
	shard shardmap.Shard
	mark  uint64 // KeyHash of its key, under no key of a cluster: it leaves no process

	// The goroutine's own.
	by    legBy     // how the last leg came about
	lost  time.Time // when it was asked to hand over, or else ended
	waves bool      // it ended with others, for all that is known
}

func (n *standing) is(state socketState) { n.state.Store(uint32(state)) }

func (n *standing) load() socketState { return socketState(n.state.Load()) }

// begins notes that a leg of the socket begins, at the node that has its client.
func (y *relay) begins(k *socket) {
	m := y.s.metrics
	switch {
	case k.gap:
		k.by = legGap
	case k.legs > 0:
		k.by = legPlanned
	default:
		k.by, k.shard, k.mark = legFirst, y.x.shard, KeyHash(nil, y.x.key)
	}
	if m.legs[k.by].Add(1); k.by != legFirst {
		m.sockets[socketResumed].Add(1)
		now := time.Now()
		m.handovers[k.by].observe(now.Sub(k.lost))
		if k.waves {
			y.s.sockets.wave.finds(now, now.Sub(k.lost), k.gap, false)
		}
	}
	k.is(socketAttached)
}

// ends notes that the leg is over, of which judge has said what follows.
func (l *leg) ends() legEnd {
	k := l.k
	end := l.outcome()
	l.s.metrics.legEnds[end].Add(1)
	k.is(0)
	if end == legAgain && !l.wants(wantLeave) {
		l.s.sockets.wave.loses(k.shard, time.Now())
		l.s.sockets.wave.finds(time.Now(), 0, false, true)
	}
	k.waves = l.appClose != int(closeMoved) || l.handed // else it is the app that wants another one
	if k.next {
		if k.waves {
			l.s.sockets.wave.loses(k.shard, time.Now())
		}
		if k.lost = l.asked; k.gap || k.lost.IsZero() {
			k.lost = time.Now()
		}
		k.is(socketDetached)
	}
	return end
}

// outcome names what judge has said.
func (l *leg) outcome() legEnd {
	k := l.k
	switch {
	case k.next && k.gap:
		return legBroken
	case k.next:
		return legHandedOver
	case l.bad || l.appBad:
		return legProtocol
	case l.passed || l.closed.Load():
		return legClosed
	case k.closing != 0:
		return legAgain
	case l.nearEnded || l.nearGone:
		return legGone
	}
	return legEnded
}

// unfound notes that no leg followed for a socket that was without one.
func (c *client) unfound() {
	k, end := c.x.sock, socketLate
	switch {
	case k.carried:
		return
	case c.down.Load():
		end = socketGone
	case k.refused != 0:
		end = socketRefused
	}
	k.is(0)
	c.s.metrics.sockets[end].Add(1)
	legLine{&c.requestState}.lost(end)
	if k.waves {
		now := time.Now()
		c.s.sockets.wave.finds(now, now.Sub(k.lost), false, end != socketGone)
	}
}

// ShardSockets counts the WebSockets of a shard at this node.
type ShardSockets struct {
	Shard shardmap.Shard
	// Attached and Detached are kept ones whose clients are connected here: with a leg, and
	// between two.
	Attached, Detached int
	// Legs and Plain are those at this node's app: legs of kept ones, wherever the client
	// is, and upgraded connections that are not kept.
	Legs, Plain int
}

// KeptSockets counts the upgraded connections of each shard that has some here.
func (s *Server) KeptSockets() []ShardSockets {
	by := map[shardmap.Shard]*ShardSockets{}
	of := func(shard shardmap.Shard) *ShardSockets {
		if by[shard] == nil {
			by[shard] = &ShardSockets{Shard: shard}
		}
		return by[shard]
	}
	s.conns.each(func(c *client) {
		if k := c.kept.Load(); k != nil {
			switch k.load() {
			case socketAttached:
				of(k.shard).Attached++
			case socketDetached:
				of(k.shard).Detached++
			}
		}
		switch r := c.slot.load(); {
		case r.kind != Local || r.flags&(slotTunnel|slotKeyless) != slotTunnel:
		case r.flags&slotSocket != 0:
			of(r.shard).Legs++
		default:
			of(r.shard).Plain++
		}
	})
	out := make([]ShardSockets, 0, len(by))
	for _, x := range by {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b ShardSockets) int { return cmp.Compare(a.Shard, b.Shard) })
	return out
}

// ResumableStreams counts the event streams of this node's clients that go on at the next
// owner of their shard.
func (s *Server) ResumableStreams() int { return int(s.metrics.resumable.Load()) }
