package proxy

import (
	"time"

	"shardway/proxy/wsession"
)

// recordHandshake records the duration of a handshake, if WebSockets are waiting for a connection.
// The caller must hold p.mu.
func (p *pool) recordHandshake(took time.Duration) {
	if p.mu.queue.upgrades == 0 {
		return
	}
	p.mu.handshakes.Record(p.opts.Pacer, took, wsession.SlowHandshake)
}

// dialForUpgrades starts further dials after the limit of the pacer has increased.
func (p *pool) dialForUpgrades() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.queue.upgrades > 0 {
		p.dialForWaiters()
	}
}

// upgradeResponded records that a WebSocket that is being resumed over l has received its upgrade
// response.
func (p *pool) upgradeResponded(l *upstreamConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.singleUse && l.awaitingUpgrade {
		p.mu.upgradeResponses.Record(p.opts.Pacer, p.opts.Clock.Exact()-l.idleSince, wsession.SlowUpgrade)
	}
	p.upgradeRespondedLocked(l)
	p.dialForWaiters()
}

// upgradeRespondedLocked removes l from the number of connections that await an upgrade response.
// It does nothing if l is not one of them. The caller must hold p.mu.
func (p *pool) upgradeRespondedLocked(l *upstreamConn) {
	if l.awaitingUpgrade {
		l.awaitingUpgrade = false
		p.mu.awaitingUpgrade--
	}
}

// recordResume records that a WebSocket has been resumed at the destination.
func (p *pool) recordResume() { p.lastResumed.Store(int64(p.opts.Clock.Now())) }

// lastResumeTime returns when a WebSocket was last resumed at the destination, by the clock of the
// pool.
func (p *pool) lastResumeTime() time.Duration { return time.Duration(p.lastResumed.Load()) }
