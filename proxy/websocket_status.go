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
	startReason     wsession.RelayStart // reason of the last relay
	lostAt          time.Time           // when the hand-over was requested; otherwise when the relay ended
	countsInSummary bool                // the relay may have ended together with others, so it counts in the hand-over summary
}

func (status *sessionStatus) setState(state wsession.State) { status.state.Store(uint32(state)) }

func (status *sessionStatus) loadState() wsession.State { return wsession.State(status.state.Load()) }

// recordStart records the start of a relay at the ingress.
func (rr *responseRelay) recordStart(session *webSocketSession) {
	m := rr.server.metrics
	switch {
	case session.messagesMayBeLost:
		session.startReason = wsession.StartAfterFailure
	case session.relays > 0:
		session.startReason = wsession.StartHandedOver
	default:
		session.startReason, session.shard, session.keyHash = wsession.StartRequested, rr.exchange.shard, shardkey.Hash(nil, rr.exchange.Key)
	}
	if m.RelayStarts[session.startReason].Add(1); session.startReason != wsession.StartRequested {
		m.SessionEnds[wsession.SessionResumed].Add(1)
		now := time.Now()
		m.Handovers[session.startReason].Observe(now.Sub(session.lostAt))
		if session.countsInSummary {
			rr.server.webSockets.summary.RecordResumed(now, now.Sub(session.lostAt), session.messagesMayBeLost)
		}
	}
	session.setState(wsession.Attached)
}

// recordEnd records the end of the relay at the ingress, and returns its result. It must be called
// after decideOutcome.
func (relay *webSocketRelay) recordEnd() wsession.RelayEnd {
	session := relay.session
	result := relay.outcome()
	relay.server.metrics.RelayEnds[result].Add(1)
	session.setState(0)
	if result == wsession.EndMustReconnect && !relay.isRequested(requestReconnect) {
		relay.server.webSockets.summary.RecordDisconnected(session.shard, time.Now())
		relay.server.webSockets.summary.RecordEnded(time.Now(), 0, true)
	}
	session.countsInSummary = relay.appCloseCode != wsession.CloseShardMoved || relay.closeAcknowledged // with an unacknowledged wsession.CloseShardMoved, the app itself has requested another relay
	if session.needsRelay {
		if session.countsInSummary {
			relay.server.webSockets.summary.RecordDisconnected(session.shard, time.Now())
		}
		if session.lostAt = relay.handoverRequestedAt; session.messagesMayBeLost || session.lostAt.IsZero() {
			session.lostAt = time.Now()
		}
		session.setState(wsession.Detached)
	}
	return result
}

// outcome returns the decision of decideOutcome in the form that metrics use.
func (relay *webSocketRelay) outcome() wsession.RelayEnd {
	session := relay.session
	switch {
	case session.needsRelay && session.messagesMayBeLost:
		return wsession.EndFailed
	case session.needsRelay:
		return wsession.EndHandedOver
	case relay.clientInvalid || relay.appInvalid:
		return wsession.EndProtocolError
	case relay.closeForwarded || relay.clientClosed.Load():
		return wsession.EndClosed
	case session.closeCode != 0:
		return wsession.EndMustReconnect
	case relay.clientEnded || relay.clientGone:
		return wsession.EndClientGone
	}
	return wsession.EndDisconnected
}

// recordResumeFailure records that a session has not found another relay. It does nothing if the session has
// started one.
func (c *client) recordResumeFailure() {
	session, result := c.exchange.session, wsession.SessionTimedOut
	switch {
	case session.relayStarted:
		return
	case c.closing.Load():
		result = wsession.SessionClientGone
	case session.refusalCode != 0:
		result = wsession.SessionRefused
	}
	session.setState(0)
	c.server.metrics.SessionEnds[result].Add(1)
	sessionLog{&c.requestState}.sessionLost(result)
	if session.countsInSummary {
		now := time.Now()
		c.server.webSockets.summary.RecordEnded(now, now.Sub(session.lostAt), result != wsession.SessionClientGone)
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
	byShard := map[shardmap.Shard]*ShardWebSockets{}
	countsOf := func(shard shardmap.Shard) *ShardWebSockets {
		if byShard[shard] == nil {
			byShard[shard] = &ShardWebSockets{Shard: shard}
		}
		return byShard[shard]
	}
	s.conns.each(func(c *client) {
		if session := c.session.Load(); session != nil {
			switch session.loadState() {
			case wsession.Attached:
				countsOf(session.shard).Attached++
			case wsession.Detached:
				countsOf(session.shard).Detached++
			}
		}
		switch current := c.slot.load(); {
		case current.kind != route.Local || current.flags&(slotTunnel|slotKeyless) != slotTunnel:
		case current.flags&slotWebSocket != 0:
			countsOf(current.shard).Resumable++
		default:
			countsOf(current.shard).Plain++
		}
	})
	list := make([]ShardWebSockets, 0, len(byShard))
	for _, counts := range byShard {
		list = append(list, *counts)
	}
	slices.SortFunc(list, func(a, b ShardWebSockets) int { return cmp.Compare(a.Shard, b.Shard) })
	return list
}

// ResumableStreams returns the number of event streams of this node's clients that the next owner
// of their shard can continue.
func (s *Server) ResumableStreams() int { return int(s.metrics.ResumableStreams.Load()) }
