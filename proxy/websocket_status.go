package proxy

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/proxy/wsession"
	"shardway/shardmap"
)

// sessionStatus is the part of a session that other goroutines may read. It is used at the ingress
// only.
type sessionStatus struct {
	// state is zero before the first relay and after the last one. shard and keyHash are written
	// once, before the first relay.
	state   atomic.Uint32
	shard   shardmap.Shard
	keyHash uint64 // shardkey.Hash of the key without a secret, which must not leave this process

	// The following fields belong to the goroutine of the session.
	startedBy wsession.RelayStart // reason of the last relay
	lost      time.Time           // when the hand-over was requested; otherwise when the relay ended
	waves     bool                // the relay may have ended together with others, so it counts in the hand-over summary
}

func (n *sessionStatus) set(state wsession.State) { n.state.Store(uint32(state)) }

func (n *sessionStatus) load() wsession.State { return wsession.State(n.state.Load()) }

// recordStart records the start of a relay at the ingress.
func (y *responseRelay) recordStart(k *webSocketSession) {
	m := y.server.metrics
	switch {
	case k.gap:
		k.startedBy = wsession.StartGap
	case k.relays > 0:
		k.startedBy = wsession.StartPlanned
	default:
		k.startedBy, k.shard, k.keyHash = wsession.StartFirst, y.exchange.shard, shardkey.Hash(nil, y.exchange.Key)
	}
	if m.relayStarts[k.startedBy].Add(1); k.startedBy != wsession.StartFirst {
		m.sessionEnds[wsession.SessionResumed].Add(1)
		now := time.Now()
		m.handovers[k.startedBy].Observe(now.Sub(k.lost))
		if k.waves {
			y.server.webSockets.summary.Resumed(now, now.Sub(k.lost), k.gap)
		}
	}
	k.set(wsession.Attached)
}

// recordEnd records the end of the relay at the ingress, and returns its result. It must be called
// after decideOutcome.
func (l *webSocketRelay) recordEnd() wsession.RelayEnd {
	k := l.session
	end := l.outcome()
	l.server.metrics.relayEnds[end].Add(1)
	k.set(0)
	if end == wsession.EndReconnect && !l.isRequested(requestReconnect) {
		l.server.webSockets.summary.Lost(k.shard, time.Now())
		l.server.webSockets.summary.Ended(time.Now(), 0, true)
	}
	k.waves = l.appClose != wsession.CloseMoved || l.closeAcknowledged // with an unacknowledged wsession.CloseMoved, the app itself has requested another relay
	if k.resumes {
		if k.waves {
			l.server.webSockets.summary.Lost(k.shard, time.Now())
		}
		if k.lost = l.handoverRequestedAt; k.gap || k.lost.IsZero() {
			k.lost = time.Now()
		}
		k.set(wsession.Detached)
	}
	return end
}

// outcome returns the decision of decideOutcome in the form that metrics use.
func (l *webSocketRelay) outcome() wsession.RelayEnd {
	k := l.session
	switch {
	case k.resumes && k.gap:
		return wsession.EndBroken
	case k.resumes:
		return wsession.EndHandedOver
	case l.invalid || l.appInvalid:
		return wsession.EndProtocol
	case l.closeForwarded || l.clientClosed.Load():
		return wsession.EndClosed
	case k.closeCode != 0:
		return wsession.EndReconnect
	case l.clientEnded || l.clientGone:
		return wsession.EndClientGone
	}
	return wsession.EndEnded
}

// recordLost records that a session has not found another relay. It does nothing if the session has
// started one.
func (c *client) recordLost() {
	k, end := c.exchange.session, wsession.SessionLate
	switch {
	case k.relayStarted:
		return
	case c.closing.Load():
		end = wsession.SessionClientGone
	case k.refused != 0:
		end = wsession.SessionRefused
	}
	k.set(0)
	c.server.metrics.sessionEnds[end].Add(1)
	sessionLog{&c.requestState}.sessionLost(end)
	if k.waves {
		now := time.Now()
		c.server.webSockets.summary.Ended(now, now.Sub(k.lost), end != wsession.SessionClientGone)
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
			case wsession.Attached:
				of(k.shard).Attached++
			case wsession.Detached:
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
