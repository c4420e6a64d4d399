package leader

import (
	"time"

	"shardway/ack"
)

// panicRecovery is the time after which health moves shards again, counted from when more than half
// of the apps were last unhealthy. Apps that share a failed dependency recover one by one, and no
// shard should move between them during that time.
const panicRecovery = 5 * time.Second

// clusterAppHealth is the combined health of all apps of a service. It decides which unhealthy apps lose
// their shards.
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

// appStatus is the status of the app of a service at one node.
type appStatus struct {
	unhealthy bool
	health    ack.AppHealth
	// isMember means that the node owns shards of the service in the last map, or is a member if there is
	// only one service.
	isMember bool
}

// nodeAppStatus returns the status of the app of a node that runs the only service.
func nodeAppStatus(in inputs, node *member) appStatus {
	return appStatus{unhealthy: node.heartbeat.Unhealthy, health: node.heartbeat.App, isMember: in.isMember(node.id)}
}

// update computes the combined health once in each step. status returns the status of the app at a node;
// runs is false if the node does not run the service.
func (h *clusterAppHealth) update(in inputs, nodes *memberTracker, status func(node *member) (app appStatus, runs bool)) {
	var apps, unhealthy, failing, refusing int
	for _, node := range nodes.byID {
		if !node.countsForAppHealth(in) {
			continue
		}
		reported, runs := status(node)
		unknown, app := !node.hasHeartbeat(), reported.health
		if hasNeverStarted := !unknown && !reported.isMember && app.Starting; !runs || hasNeverStarted {
			continue
		}
		apps++
		mayFail := unknown || reported.unhealthy || app.Failing
		if reported.unhealthy {
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

// excludes reports whether a node may not own shards because its app is unhealthy. If most
// apps are unhealthy, a member stays, because its shards would move from one unhealthy app to the
// next. If most apps may become unhealthy, the leader waits. An app that refuses connections is
// excluded immediately, unless most apps do.
func (h *clusterAppHealth) excludes(app appStatus) bool {
	switch {
	case !app.unhealthy:
		return false
	case !app.isMember:
		return true
	case app.health.Refused:
		return !h.mostUnhealthy && !h.mostRefuseConns
	}
	return !h.panicMode && !h.mostMayFail
}

// countsForAppHealth reports whether the apps of the node count in clusterAppHealth: the node could own
// shards if they are healthy. An app that has not started yet has never owned any, see
// clusterAppHealth.update.
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
	return !m.isSilent(in)
}

// isHeldBack reports whether a node outside the map must wait, because its app became
// unhealthy repeatedly and recovered only recently, or because other members cannot reach it.
func (m *member) isHeldBack(in inputs) bool {
	return m.remainingHoldTime(in) > 0 || m.reportHold(in) > 0
}

// anyHeldBack reports whether any node is held back.
func (mt *memberTracker) anyHeldBack(in inputs) bool {
	for _, node := range mt.byID {
		if node.isHeldBack(in) {
			return true
		}
	}
	return false
}

// requiredHealthyTime returns how long the app must remain healthy from now on before the node gets
// shards again. While the app is unhealthy, this is the whole pause.
func (m *member) requiredHealthyTime(in inputs) time.Duration {
	if m.heartbeat.Unhealthy && !m.heartbeat.Gateway && !in.isMember(m.id) {
		return ack.FlapPause(m.heartbeat.App.FlapCount)
	}
	return m.remainingHoldTime(in)
}

// remainingHoldTime returns how long a node with a healthy app is still held back, if the app remains
// healthy. It returns zero for other nodes.
func (m *member) remainingHoldTime(in inputs) time.Duration {
	if !m.hasHeartbeat() || m.heartbeat.Unhealthy || m.heartbeat.Gateway || in.isMember(m.id) {
		return 0
	}
	return max(m.healthySince+ack.FlapPause(m.heartbeat.App.FlapCount)-in.now, 0)
}
