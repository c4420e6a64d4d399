package connpool

import (
	"time"

	"shardway/proxy/wsession"
)

// recordHandshake records the duration of a handshake, if WebSockets are waiting for a connection.
// The caller must hold p.mu.
func (p *Pool) recordHandshake(duration time.Duration) {
	if p.mu.queue.upgrades == 0 {
		return
	}
	p.mu.handshakes.Record(p.opts.Pacer, duration, wsession.HandshakeAllowance)
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
		p.mu.upgradeResponses.Record(p.opts.Pacer, p.opts.Clock.Exact()-conn.idleSince, wsession.UpgradeAllowance)
	}
	p.upgradeRespondedLocked(conn)
	p.dialForWaiters()
}

// upgradeRespondedLocked removes conn from the number of connections that await an upgrade response.
// It does nothing if conn is not one of them. The caller must hold p.mu.
func (p *Pool) upgradeRespondedLocked(conn *Conn) {
	if conn.awaitingUpgrade {
		conn.awaitingUpgrade = false
		p.mu.awaitingUpgrade--
	}
}

// RecordResume records that a WebSocket has been resumed at the destination.
func (p *Pool) RecordResume() { p.lastResumed.Store(int64(p.opts.Clock.Now())) }

// LastResumeTime returns when a WebSocket was last resumed at the destination, by the clock of the
// pool.
func (p *Pool) LastResumeTime() time.Duration { return time.Duration(p.lastResumed.Load()) }
