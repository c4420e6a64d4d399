package connpool

import (
	"time"

	"shardway/proxy/wsession"
)

// upgradeTracker counts the resumed WebSockets that await their upgrade response from a node, and
// reports to the pacer how long the node takes. Pool.mu protects all fields.
type upgradeTracker struct {
	pacer            *wsession.ReconnectPacer
	awaitingResponse int                      // connections on which a resumed WebSocket awaits its upgrade response
	handshakes       wsession.LatencyBaseline // latency of the handshakes while WebSockets wait for a connection
	responses        wsession.LatencyBaseline // latency of the upgrade responses over streams
}

// requested records that a resumed WebSocket requests its upgrade over conn.
func (u *upgradeTracker) requested(conn *Conn) {
	conn.awaitingUpgrade = true
	u.awaitingResponse++
}

// ended records that conn no longer awaits an upgrade response. It does nothing if conn awaits none.
func (u *upgradeTracker) ended(conn *Conn) {
	if conn.awaitingUpgrade {
		conn.awaitingUpgrade = false
		u.awaitingResponse--
	}
}

// recordHandshake records the duration of a handshake for which WebSockets may have waited.
func (u *upgradeTracker) recordHandshake(duration time.Duration) {
	u.handshakes.Record(u.pacer, duration, wsession.HandshakeAllowance)
}

// recordResponse records how long the node took to respond to an upgrade request over a stream.
func (u *upgradeTracker) recordResponse(duration time.Duration) {
	u.responses.Record(u.pacer, duration, wsession.UpgradeAllowance)
}

// DialForUpgrades starts further dials after the limit of the pacer has increased.
func (p *Pool) DialForUpgrades() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.queue.upgrades > 0 {
		p.dialForWaiters()
	}
}

// UpgradeResponded records that a WebSocket that is being resumed over conn has received its upgrade
// response.
func (p *Pool) UpgradeResponded(conn *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if conn.SingleUse && conn.awaitingUpgrade {
		p.mu.upgrades.recordResponse(p.opts.Clock.Exact() - conn.idleSince)
	}
	p.mu.upgrades.ended(conn)
	p.dialForWaiters()
}

// RecordResume records that a WebSocket has been resumed at the destination.
func (p *Pool) RecordResume() { p.lastResumed.Store(int64(p.opts.Clock.Now())) }

// LastResumeTime returns when a WebSocket was last resumed at the destination, by the clock of the
// pool.
func (p *Pool) LastResumeTime() time.Duration { return time.Duration(p.lastResumed.Load()) }
