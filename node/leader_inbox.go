package node

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/internal/chanutil"
	"shardway/node/crashdetect"
	"shardway/node/heartbeat"
	"shardway/node/identity"
	"shardway/node/leaderloop"
	"shardway/node/logs"
)

// leaderInbox passes messages of this node and of other nodes to the leader loop, if this node leads. Its
// methods may be called from any goroutine.
type leaderInbox struct {
	leadership *atomic.Pointer[leaderloop.Leadership] // nil means that this node does not lead
	records    *identity.Records
	crashes    *crashdetect.Detector
	ownAnswers chan ack.Answer   // cap 1: newest response to a heartbeat of this node
	invalidLog logs.PeerLimiter  // limits log lines about invalid messages
	timing     func() ack.Timing // timing of the cluster
	log        zerolog.Logger

	heartbeats *heartbeat.Server // serves the heartbeat streams; set by initHeartbeats
}

// initHeartbeats creates the server of the heartbeat streams that other nodes open. The end of a stream
// without a goodbye starts a check whether the node crashed.
func (b *leaderInbox) initHeartbeats() {
	b.heartbeats = &heartbeat.Server{
		Deliver: b.deliverHeartbeat, OnAccepted: b.records.LearnHeartbeat, InvalidLog: &b.invalidLog, Log: b.log,
		OnClosed: func(last ack.Heartbeat) {
			b.send(leader.ConnClosed{Node: last.Node, Nonce: last.Nonce})
			if !last.Goodbye {
				b.crashes.ConnClosed(string(last.Node), crashdetect.Process{Boot: last.Boot, Nonce: last.Nonce}) // outlives the stream
			}
		},
	}
}

// checkAfterDeparture dials a node that failed or left according to gossip, if this node leads. If no process listens at
// its address and no heartbeat arrives until its lease has ended, its heartbeat streams are closed. Then the usual check
// for a crash follows. It finds a process that ended without closing its connections.
func (b *leaderInbox) checkAfterDeparture(node string) {
	leadership := b.leadership.Load()
	if leadership == nil {
		return
	}
	b.crashes.Check(node, func(ctx context.Context) {
		stillLeads := func() bool { return b.leadership.Load() == leadership }
		b.heartbeats.CloseSilentStreams(ctx, node, b.timing().LeaseExpiry(), stillLeads)
	})
}

// deliverHeartbeat passes a heartbeat to the leader loop if this node leads. It refuses a heartbeat
// from a disk that was rolled back to an older image.
func (b *leaderInbox) deliverHeartbeat(ctx context.Context, received heartbeat.Received) {
	leadership := b.leadership.Load()
	if leadership == nil {
		return
	}
	if err := b.records.CheckHeartbeat(received.Heartbeat); err != nil && received.Heartbeat.Term == leadership.Term() {
		if b.invalidLog.Pass(string(received.Heartbeat.Node)) {
			b.log.Warn().Err(err).Str("peer", string(received.Heartbeat.Node)).Msg("heartbeat refused")
		}
		received.Respond(ack.Answer{FormatVersion: received.Heartbeat.FormatVersion, Term: leadership.Term(), Boot: received.Heartbeat.Boot, HeartbeatNumber: received.Heartbeat.Number, Refusal: ack.RefusedRollback, KnownBoot: b.records.Table().Of(received.Heartbeat.Server).Boot})
		return
	}
	leadership.Deliver(ctx, received)
}

// deliverOwnHeartbeat passes this node's own heartbeat to its own leader loop, if it leads. It does
// not block: if the loop is busy, a newer heartbeat replaces this one, as if it was lost.
func (b *leaderInbox) deliverOwnHeartbeat(own ack.Heartbeat) {
	leadership := b.leadership.Load()
	if leadership == nil {
		return
	}
	leadership.DeliverOwn(heartbeat.Received{Heartbeat: own, RemoteAddr: "local", Respond: func(a ack.Answer) { chanutil.Replace(b.ownAnswers, a) }})
}

// deliverReleases passes the release notes of another node to the leader loop, if this node leads.
func (b *leaderInbox) deliverReleases(node string, encoded []byte) error {
	var releases ack.Releases
	if err := releases.UnmarshalBinary(encoded); err != nil || string(releases.Node) != node {
		if b.invalidLog.Pass(node) {
			b.log.Warn().Err(err).Str("peer", node).Str("claimed", logs.Cut(string(releases.Node))).Msg("invalid releases from node")
		}
		return fmt.Errorf("%w: invalid releases", api.ErrInvalid)
	}
	if b.leadership.Load() == nil {
		return api.ErrNoLeader
	}
	b.send(leader.ReleasesReceived{Releases: releases})
	return nil
}

// send passes a message other than a heartbeat to the leader loop, if this node leads.
func (b *leaderInbox) send(message leader.Message) {
	if leadership := b.leadership.Load(); leadership != nil {
		leadership.Send(message)
	}
}
