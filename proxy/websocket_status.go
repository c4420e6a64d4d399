package proxy

import (
	"cmp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

// relayStart is the reason why a relay of a resumable WebSocket was started.
type relayStart uint8

const (
	relayFirst   relayStart = iota // the client has requested the WebSocket
	relayPlanned                   // the previous relay was handed over
	relayGap                       // the previous relay broke: messages may be missing
	relayStarts
)

var relayStartNames = [relayStarts]string{"first", "planned", "gap"}

// relayEnd is the result of a relay that has ended, as seen by the ingress.
type relayEnd uint8

const (
	relayHandedOver relayEnd = iota // another relay follows, and no message is missing
	relayBroken                     // another relay follows, and messages may be missing
	relayClosed                     // the client or the app sent a close frame
	relayEnded                      // the app ended the connection without a close frame, or within a message; so the client's connection ended too
	relayReconnect                  // the client was told to reconnect
	relayProtocol                   // the client or the app violated the protocol
	relayClientGone                 // the client disconnected
	relayEnds
)

var relayEndNames = [relayEnds]string{"handed-over", "gap", "closed", "ended", "come-again", "protocol", "client-gone"}

// sessionEnd is the result of the wait of a session for its next relay.
type sessionEnd uint8

const (
	sessionResumed    sessionEnd = iota // the next relay has started
	sessionRefused                      // the app sent a response other than 101
	sessionLate                         // no app accepted the session in time, or this node is leaving
	sessionClientGone                   // the client disconnected
	sessionEnds
)

var sessionEndNames = [sessionEnds]string{"resumed", "refused", "late", "client-gone"}

// sessionState is the state of a resumable WebSocket.
type sessionState uint32

const (
	sessionAttached sessionState = iota + 1 // a relay is running
	sessionDetached                         // the session waits for its next relay
)

// String returns the name of the state in metrics.
func (x sessionState) String() string {
	switch x {
	case sessionAttached:
		return "attached"
	case sessionDetached:
		return "detached"
	}
	return "socketState(" + strconv.Itoa(int(x)) + ")"
}

// sessionStatus is the part of a session that other goroutines may read. It is used at the ingress
// only.
type sessionStatus struct {
	// state is zero before the first relay and after the last one. shard and keyHash are written
	// once, before the first relay.
	state   atomic.Uint32
	shard   shardmap.Shard
	keyHash uint64 // shardkey.Hash of the key without a secret, which must not leave this process

	// The following fields belong to the goroutine of the session.
	startedBy relayStart // reason of the last relay
	lost      time.Time  // when the hand-over was requested; otherwise when the relay ended
	waves     bool       // the relay may have ended together with others, so it counts in the hand-over summary
}

func (n *sessionStatus) set(state sessionState) { n.state.Store(uint32(state)) }

func (n *sessionStatus) load() sessionState { return sessionState(n.state.Load()) }

// recordStart records the start of a relay at the ingress.
func (y *responseRelay) recordStart(k *webSocketSession) {
	m := y.s.metrics
	switch {
	case k.gap:
		k.startedBy = relayGap
	case k.relays > 0:
		k.startedBy = relayPlanned
	default:
		k.startedBy, k.shard, k.keyHash = relayFirst, y.x.shard, shardkey.Hash(nil, y.x.Key)
	}
	if m.legs[k.startedBy].Add(1); k.startedBy != relayFirst {
		m.sockets[sessionResumed].Add(1)
		now := time.Now()
		m.handovers[k.startedBy].Observe(now.Sub(k.lost))
		if k.waves {
			y.s.webSockets.summary.finds(now, now.Sub(k.lost), k.gap, false)
		}
	}
	k.set(sessionAttached)
}

// recordEnd records the end of the relay at the ingress, and returns its result. It must be called
// after decideOutcome.
func (l *webSocketRelay) recordEnd() relayEnd {
	k := l.session
	end := l.outcome()
	l.s.metrics.legEnds[end].Add(1)
	k.set(0)
	if end == relayReconnect && !l.isRequested(requestReconnect) {
		l.s.webSockets.summary.loses(k.shard, time.Now())
		l.s.webSockets.summary.finds(time.Now(), 0, false, true)
	}
	k.waves = l.appClose != closeMoved || l.closeAcknowledged // with an unacknowledged closeMoved, the app itself has requested another relay
	if k.resumes {
		if k.waves {
			l.s.webSockets.summary.loses(k.shard, time.Now())
		}
		if k.lost = l.asked; k.gap || k.lost.IsZero() {
			k.lost = time.Now()
		}
		k.set(sessionDetached)
	}
	return end
}

// outcome returns the decision of decideOutcome in the form that metrics use.
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
	case k.closeCode != 0:
		return relayReconnect
	case l.clientEnded || l.clientGone:
		return relayClientGone
	}
	return relayEnded
}

// recordLost records that a session has not found another relay. It does nothing if the session has
// started one.
func (c *client) recordLost() {
	k, end := c.x.session, sessionLate
	switch {
	case k.relayStarted:
		return
	case c.closing.Load():
		end = sessionClientGone
	case k.refused != 0:
		end = sessionRefused
	}
	k.set(0)
	c.s.metrics.sockets[end].Add(1)
	sessionLog{&c.requestState}.sessionLost(end)
	if k.waves {
		now := time.Now()
		c.s.webSockets.summary.finds(now, now.Sub(k.lost), false, end != sessionClientGone)
	}
}

// ShardWebSockets contains the number of WebSockets of a shard at this node.
type ShardWebSockets struct {
	Shard shardmap.Shard
	// Attached and Detached are the resumable WebSockets whose clients are connected to this node,
	// with and without an upstream connection.
	Attached, Detached int
	// Resumable and Plain are the upgraded connections to this node's app. Resumable counts
	// resumable WebSockets, wherever the client is connected. Plain counts all other upgraded
	// connections.
	Resumable, Plain int
}

// WebSocketCounts returns the counts for each shard that has upgraded connections at this node.
func (s *Server) WebSocketCounts() []ShardWebSockets {
	by := map[shardmap.Shard]*ShardWebSockets{}
	of := func(shard shardmap.Shard) *ShardWebSockets {
		if by[shard] == nil {
			by[shard] = &ShardWebSockets{Shard: shard}
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
		case r.kind != route.Local || r.flags&(slotTunnel|slotKeyless) != slotTunnel:
		case r.flags&slotWebSocket != 0:
			of(r.shard).Resumable++
		default:
			of(r.shard).Plain++
		}
	})
	out := make([]ShardWebSockets, 0, len(by))
	for _, x := range by {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b ShardWebSockets) int { return cmp.Compare(a.Shard, b.Shard) })
	return out
}

// ResumableStreams returns the number of event streams of this node's clients that the next owner
// of their shard can continue.
func (s *Server) ResumableStreams() int { return int(s.metrics.resumable.Load()) }
