package proxy

import (
	"cmp"
	"slices"
	"time"

	"shardway/proxy/inflight"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/proxy/wsession"
	"shardway/proxy/wsrelay"
	"shardway/shardmap"
)

// recordStart records the start of a relay at the ingress.
func (rr *responseRelay) recordStart(session *wsrelay.Session) {
	m := rr.server.metrics
	switch {
	case session.MessagesMayBeLost:
		session.StartReason = wsession.StartAfterFailure
	case session.Relays > 0:
		session.StartReason = wsession.StartHandedOver
	default:
		session.StartReason, session.Shard, session.KeyHash = wsession.StartRequested, rr.exchange.shard, shardkey.Hash(nil, rr.exchange.Key)
	}
	if m.RelayStarts[session.StartReason].Add(1); session.StartReason != wsession.StartRequested {
		m.SessionEnds[wsession.SessionResumed].Add(1)
		now := time.Now()
		m.Handovers[session.StartReason].Observe(now.Sub(session.LostAt))
		if session.CountsInSummary {
			rr.server.webSockets.summary.RecordResumed(now, now.Sub(session.LostAt), session.MessagesMayBeLost)
		}
	}
	session.SetState(wsession.Attached)
}

// recordRelayEnd records the end of the relay at the ingress, and returns its result. It must be
// called after Finish.
func (resumer *sessionResumer) recordRelayEnd(relay *wsrelay.Relay) wsession.RelayEnd {
	session, summary := resumer.exchange.session, &resumer.server.webSockets.summary
	result := relay.Result()
	resumer.server.metrics.RelayEnds[result].Add(1)
	session.SetState(0)
	if result == wsession.EndMustReconnect && !relay.IsReconnectRequested() {
		summary.RecordDisconnected(session.Shard, time.Now())
		summary.RecordEnded(time.Now(), 0, true)
	}
	session.CountsInSummary = relay.MayHaveEndedTogether()
	if session.NeedsRelay {
		if session.CountsInSummary {
			summary.RecordDisconnected(session.Shard, time.Now())
		}
		if session.LostAt = relay.HandoverRequestedAt(); session.MessagesMayBeLost || session.LostAt.IsZero() {
			session.LostAt = time.Now()
		}
		session.SetState(wsession.Detached)
	}
	return result
}

// recordResumeFailure records that a session got no further relay. It does nothing if the session
// has started one.
func (resumer *sessionResumer) recordResumeFailure() {
	session, result := resumer.exchange.session, wsession.SessionTimedOut
	switch {
	case session.RelayStarted:
		return
	case resumer.closing.Load():
		result = wsession.SessionClientGone
	case session.RefusalCode != 0:
		result = wsession.SessionRefused
	}
	session.SetState(0)
	resumer.server.metrics.SessionEnds[result].Add(1)
	sessionLog{resumer.requestState}.logSessionEnd(result)
	if session.CountsInSummary {
		now := time.Now()
		resumer.server.webSockets.summary.RecordEnded(now, now.Sub(session.LostAt), result != wsession.SessionClientGone)
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
	s.conns.Each(func(c *client) {
		if session := c.session.Load(); session != nil {
			switch session.State() {
			case wsession.Attached:
				countsOf(session.Shard).Attached++
			case wsession.Detached:
				countsOf(session.Shard).Detached++
			}
		}
		switch current := c.slot.Load(); {
		case current.Kind != route.Local || current.Flags&(inflight.Tunnel|inflight.Keyless) != inflight.Tunnel:
		case current.Flags&inflight.WebSocket != 0:
			countsOf(current.Shard).Resumable++
		default:
			countsOf(current.Shard).Plain++
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
