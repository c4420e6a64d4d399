package proxy

import (
	"cmp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"shardway/shardmap"
)

// relayStart says how a leg of a kept socket came about.
type relayStart uint8

const (
	relayFirst   relayStart = iota // its client asked for the socket
	relayPlanned                   // the one before was handed over
	relayGap                       // the one before broke: messages may be missing
	relayStarts
)

var relayStartNames = [relayStarts]string{"first", "planned", "gap"}

// relayEnd says what became of a kept socket whose leg is over, at the node that has its
// client.
type relayEnd uint8

const (
	relayHandedOver relayEnd = iota // another one follows, and nothing is missing
	relayBroken                     // another one follows, with a gap
	relayClosed                     // the client or the app sent Close
	relayEnded                      // the app ended without Close, or inside a message, and so did the client's connection
	relayReconnect                  // the client was told to come again
	relayProtocol                   // the client or the app broke the protocol
	relayClientGone                 // the client went
	relayEnds
)

var relayEndNames = [relayEnds]string{"handed-over", "gap", "closed", "ended", "come-again", "protocol", "client-gone"}

// sessionEnd says what came of a kept socket that was without a leg.
type sessionEnd uint8

const (
	sessionResumed    sessionEnd = iota // it has the next one
	sessionRefused                      // the app answered with something else
	sessionLate                         // nobody took it in time, or this node leaves
	sessionClientGone                   // the client went
	sessionEnds
)

var sessionEndNames = [sessionEnds]string{"resumed", "refused", "late", "client-gone"}

// sessionState is what a kept socket is doing.
type sessionState uint32

const (
	sessionAttached sessionState = iota + 1 // it has a leg
	sessionDetached                         // it waits for the next one
)

// String names the state in metrics.
func (x sessionState) String() string {
	switch x {
	case sessionAttached:
		return "attached"
	case sessionDetached:
		return "detached"
	}
	return "socketState(" + strconv.Itoa(int(x)) + ")"
}

// sessionStatus is what others may know of a kept socket, at the node that has its client.
type sessionStatus struct {
	// state is zero before the first leg and after the last. What is below is written
	// before, and never again.
	state atomic.Uint32
	shard shardmap.Shard
	mark  uint64 // KeyHash of its key, under no key of a cluster: it leaves no process

	// The goroutine's own.
	startedBy relayStart // how the last leg came about
	lost      time.Time  // when it was asked to hand over, or else ended
	waves     bool       // it ended with others, for all that is known
}

func (n *sessionStatus) set(state sessionState) { n.state.Store(uint32(state)) }

func (n *sessionStatus) load() sessionState { return sessionState(n.state.Load()) }

// recordStart notes that a leg of the socket begins, at the node that has its client.
func (y *responseRelay) recordStart(k *webSocketSession) {
	m := y.s.metrics
	switch {
	case k.gap:
		k.startedBy = relayGap
	case k.relays > 0:
		k.startedBy = relayPlanned
	default:
		k.startedBy, k.shard, k.mark = relayFirst, y.x.shard, KeyHash(nil, y.x.key)
	}
	if m.legs[k.startedBy].Add(1); k.startedBy != relayFirst {
		m.sockets[sessionResumed].Add(1)
		now := time.Now()
		m.handovers[k.startedBy].observe(now.Sub(k.lost))
		if k.waves {
			y.s.sockets.wave.finds(now, now.Sub(k.lost), k.gap, false)
		}
	}
	k.set(sessionAttached)
}

// recordEnd notes that the leg is over, of which judge has said what follows.
func (l *webSocketRelay) recordEnd() relayEnd {
	k := l.session
	end := l.outcome()
	l.s.metrics.legEnds[end].Add(1)
	k.set(0)
	if end == relayReconnect && !l.isRequested(requestReconnect) {
		l.s.sockets.wave.loses(k.shard, time.Now())
		l.s.sockets.wave.finds(time.Now(), 0, false, true)
	}
	k.waves = l.appClose != int(closeMoved) || l.closeAcknowledged // else it is the app that wants another one
	if k.resumes {
		if k.waves {
			l.s.sockets.wave.loses(k.shard, time.Now())
		}
		if k.lost = l.asked; k.gap || k.lost.IsZero() {
			k.lost = time.Now()
		}
		k.set(sessionDetached)
	}
	return end
}

// outcome names what judge has said.
func (l *webSocketRelay) outcome() relayEnd {
	k := l.session
	switch {
	case k.resumes && k.gap:
		return relayBroken
	case k.resumes:
		return relayHandedOver
	case l.invalid || l.appInvalid:
		return relayProtocol
	case l.closeForwarded || l.clientClosed.Load():
		return relayClosed
	case k.closing != 0:
		return relayReconnect
	case l.clientEnded || l.clientGone:
		return relayClientGone
	}
	return relayEnded
}

// unfound notes that no leg followed for a socket that was without one.
func (c *client) unfound() {
	k, end := c.x.session, sessionLate
	switch {
	case k.relayStarted:
		return
	case c.down.Load():
		end = sessionClientGone
	case k.refused != 0:
		end = sessionRefused
	}
	k.set(0)
	c.s.metrics.sockets[end].Add(1)
	sessionLog{&c.requestState}.lost(end)
	if k.waves {
		now := time.Now()
		c.s.sockets.wave.finds(now, now.Sub(k.lost), false, end != sessionClientGone)
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
		if k := c.session.Load(); k != nil {
			switch k.load() {
			case sessionAttached:
				of(k.shard).Attached++
			case sessionDetached:
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
