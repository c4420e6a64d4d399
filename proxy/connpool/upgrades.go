package connpool

import (
	"time"

	"shardway/proxy/wsession"
)

// upgradeTracker counts the connections to a node on which a resumed WebSocket awaits its upgrade
// response. It reports to the pacer how long the node takes to respond. Pool.mu protects all fields.
type upgradeTracker struct {
	pacer            *wsession.ReconnectPacer
	awaitingResponse int                      // connections on which a resumed WebSocket awaits its upgrade response
	handshakes       wsession.LatencyBaseline // duration of the handshakes of new connections while WebSockets wait for one
	responses        wsession.LatencyBaseline // latency of the upgrade responses over multiplexed streams
}

// add starts tracking conn, over which a resumed WebSocket requests its upgrade.
func (u *upgradeTracker) add(conn *Conn) {
	conn.awaitingUpgrade = true
	u.awaitingResponse++
}

// remove stops tracking conn. It does nothing if conn was not added.
func (u *upgradeTracker) remove(conn *Conn) {
	if conn.awaitingUpgrade {
		conn.awaitingUpgrade = false
		u.awaitingResponse--
	}
}

// recordHandshake records the duration of the handshake of a new connection. WebSockets may have waited
// for it.
func (u *upgradeTracker) recordHandshake(duration time.Duration) {
	u.handshakes.Record(u.pacer, duration, wsession.HandshakeAllowance)
}

// recordResponse records how long the node took to respond to an upgrade request over a
// multiplexed stream.
func (u *upgradeTracker) recordResponse(duration time.Duration) {
	u.responses.Record(u.pacer, duration, wsession.UpgradeAllowance)
}

// DialForUpgrades starts further dials for waiting WebSockets. It must be called after the pacer's limit has
// increased.
func (p *Pool) DialForUpgrades() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.queue.upgrades > 0 {
		p.dialForWaiters()
	}
}

// RecordUpgradeResponse records that the upgrade response for the WebSocket resumed over conn has arrived.
func (p *Pool) RecordUpgradeResponse(conn *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if conn.SingleUse && conn.awaitingUpgrade {
		p.mu.upgrades.recordResponse(p.opts.Clock.Exact() - conn.upgradeStartedAt)
	}
	p.mu.upgrades.remove(conn)
	p.dialForWaiters() // the number of outstanding upgrade responses limits dials
}

// RecordResume records that a WebSocket has been resumed at the destination.
func (p *Pool) RecordResume() { p.lastResumed.Store(int64(p.opts.Clock.Now())) }

// LastResumeTime returns when a WebSocket was last resumed at the destination, by the clock of the
// pool.
func (p *Pool) LastResumeTime() time.Duration { return time.Duration(p.lastResumed.Load()) }
