package leader

import (
	"time"

	"shardway/ack"
)

// panicRecovery is the time after which health moves shards again, counted from when more than half
// of the apps were last unhealthy. Apps that share a failed dependency recover one by one, and no
// shard should move between them during that time.
const panicRecovery = 5 * time.Second

// clusterAppHealth is the combined health of all apps. It decides which unhealthy apps lose their
// shards.
type clusterAppHealth struct {
	// mostUnhealthy is set if more than half of the apps are unhealthy now.
	mostUnhealthy bool
	// panicMode is set if mostUnhealthy is true, or was within panicRecovery. Health then moves no
	// shards.
	panicMode         bool
	lastMostUnhealthy time.Duration // when mostUnhealthy was last true
	// mostMayFail is set if more than half of the apps are unhealthy, or may be soon because their
	// last checks failed. mostRefuseConns is set if these checks were refused connections. A new
	// leader includes apps of nodes that have not sent a heartbeat yet.
	mostMayFail, mostRefuseConns bool
}

// update computes the combined health once in each step.
func (h *clusterAppHealth) update(in inputs, nodes *memberTracker) {
	var apps, unhealthy, failing, refusing int
	for _, node := range nodes.byID {
		if !node.countsForAppHealth(in) {
			continue
		}
		apps++
		unknown, app := !node.hasHeartbeat(), node.heartbeat.App
		mayFail := unknown || node.heartbeat.Unhealthy || app.Failing
		if node.heartbeat.Unhealthy {
			unhealthy++
		}
		if mayFail {
			failing++
		}
		if unknown || mayFail && app.Refused {
			refusing++
		}
	}
	h.mostMayFail, h.mostRefuseConns = 2*failing > apps, 2*refusing > apps
	if h.mostUnhealthy = 2*unhealthy > apps; h.mostUnhealthy {
		h.panicMode, h.lastMostUnhealthy = true, in.now
	} else if in.now-h.lastMostUnhealthy > panicRecovery {
		h.panicMode = false
	}
}

// excludes reports whether a node may not be in the next map because its app is unhealthy. If most
// apps are unhealthy, a member stays, because its shards would move from one unhealthy app to the
// next. If most apps may become unhealthy, the leader waits. An app that refuses connections is
// excluded immediately, unless most apps do.
func (h *clusterAppHealth) excludes(in inputs, node *member) bool {
	switch {
	case !node.heartbeat.Unhealthy:
		return false
	case !in.isMember(node.id):
		return true
	case node.heartbeat.App.Refused:
		return !h.mostUnhealthy && !h.mostRefuseConns
	}
	return !h.panicMode && !h.mostMayFail
}

// countsForAppHealth reports whether an app counts in clusterAppHealth: its node could own shards
// if the app is healthy. An app that has not started yet has never owned any.
func (m *member) countsForAppHealth(in inputs) bool {
	if m.removed || m.hasCrashed() || m.isStopping() || m.heartbeat.Gateway || in.isRestarting(m) {
		return false
	}
	if m.isDrained(in) || in.isMarkedFailed(m) {
		return false
	}
	if !m.hasHeartbeat() {
		return in.isMember(m.id) && in.isNewLeader()
	}
	return !m.isSilent(in) && (in.isMember(m.id) || !m.heartbeat.App.Starting)
}

// isHeldBack reports whether a node outside the map must wait, because its app became
// unhealthy repeatedly and recovered only recently, or because other members cannot reach it.
func (m *member) isHeldBack(in inputs) bool { return m.holdRemaining(in) > 0 || m.reportHold(in) > 0 }

// anyHeldBack reports whether any node is held back.
func (mt *memberTracker) anyHeldBack(in inputs) bool {
	for _, node := range mt.byID {
		if node.isHeldBack(in) {
			return true
		}
	}
	return false
}

// holdTime returns how long the app must be healthy before the node gets shards again.
func (m *member) holdTime(in inputs) time.Duration {
	if m.heartbeat.Unhealthy && !m.heartbeat.Gateway && !in.isMember(m.id) {
		return ack.FlapPause(m.heartbeat.App.FlapCount)
	}
	return m.holdRemaining(in)
}

// holdRemaining returns how long the node is still held back if its app remains healthy.
func (m *member) holdRemaining(in inputs) time.Duration {
	if !m.hasHeartbeat() || m.heartbeat.Unhealthy || m.heartbeat.Gateway || in.isMember(m.id) {
		return 0
	}
	return max(m.healthySince+ack.FlapPause(m.heartbeat.App.FlapCount)-in.now, 0)
}
