package ack

import "time"

// panicHold is for how long at most half of the apps must have been unhealthy before their
// health counts again. Apps that share a dependency recover one after the other.
const panicRecovery = 5 * time.Second

// maxFalls bounds AppHealth.Falls; damping has reached its longest pause long before.
const maxFlaps = 1000

// AppHealth is what a node reports of the health checks of its app, in addition to whether
// that app counts as unhealthy. The zero value is an app whose last check was good.
type AppHealth struct {
	// Failing reports that the last check failed, and Refused that it failed because
	// nothing listens at the app's address.
	Failing, Refused bool
	// Starting reports that no check of this process has been good yet.
	Starting bool
	// Falls is how often the app has become unhealthy, each time within 10 minutes of the
	// time before; 0 once so long has passed since the last time. At most 1000.
	Falls uint32
}

// appHealth is what the leader concludes from the health of all apps together.
type clusterAppHealth struct {
	// panics reports that most apps are unhealthy, or were within panicHold: then health
	// moves no shards. most reports that they are now.
	panicMode, mostUnhealthy bool
	// calm is when most of them were unhealthy last.
	lastMostUnhealthy time.Duration
	// failing and refused report that most apps are unhealthy or may be so in a moment:
	// their last checks failed, or were refused. A leader just elected counts an app that
	// it has not heard of yet.
	mostFailing, mostRefused bool
	// nobody reports that no node may own shards but those whose return is held back.
	onlyHeldBack bool
}

// lookAtApps draws the conclusions of one step.
func (l *Leader) updateAppsHealth(now time.Duration) {
	var apps, unhealthy, failing, refused int
	for _, m := range l.state.Last().Members() {
		l.member(m.ID)
	}
	h := &l.appsHealth
	held := false
	for _, n := range l.members {
		held = held || l.isHeldBack(now, n)
		if !l.countsApp(now, n) {
			continue
		}
		apps++
		switch {
		case !n.heard():
			failing++
			refused++
		case n.heartbeat.Unhealthy || n.heartbeat.App.Failing:
			failing++
			if n.heartbeat.Unhealthy {
				unhealthy++
			}
			if n.heartbeat.App.Refused {
				refused++
			}
		}
	}
	h.mostFailing, h.mostRefused = 2*failing > apps, 2*refused > apps
	if h.mostUnhealthy = 2*unhealthy > apps; h.mostUnhealthy {
		h.panicMode, h.lastMostUnhealthy = true, now
	} else if now-h.lastMostUnhealthy > panicRecovery {
		h.panicMode = false
	}
	if h.onlyHeldBack = false; held {
		h.onlyHeldBack = true
		for id, n := range l.members {
			if l.eligibleIgnoringFlaps(now, n) && !l.isHeldBack(now, n) && !l.isRestarting(n) && !l.state.Policy().drainsGradually(id) {
				h.onlyHeldBack = false
			}
		}
	}
}

// countsApp reports whether the app of a node counts when most apps are looked for: it may
// own shards but for its health. An app that has not started yet never owned any.
func (l *Leader) countsApp(now time.Duration, n *member) bool {
	member := l.state.Last().Has(n.id)
	switch {
	case n.removed, n.crashed(), n.heartbeat.Gateway, n.heartbeat.Leaving, n.heartbeat.Goodbye, l.state.Policy().Drained[n.id], l.isRestarting(n):
		return false
	case !n.heard():
		return member && now-l.elected < l.maxTiming.DeadAfter
	}
	return !n.silent(now, l.o.Pace) && (member || !n.heartbeat.App.Starting)
}

// leavesForHealth reports that a node may not be in the next map because its app is
// unhealthy. A member stays where most apps are unhealthy, because its shards would go from
// one unhealthy app to the next. It waits for a moment where most may turn out to be. An app
// that refuses connections is left at once, unless most apps do.
func (l *Leader) excludedForHealth(n *member) bool {
	if !n.heartbeat.Unhealthy {
		return false
	}
	switch h := l.appsHealth; {
	case !l.state.Last().Has(n.id):
		return true
	case n.heartbeat.App.Refused:
		return !h.mostUnhealthy && !h.mostRefused
	default:
		return !h.panicMode && !h.mostFailing
	}
}

// heldBack reports that the app of a node that has left the map recovered too recently for
// how often it became unhealthy.
func (l *Leader) isHeldBack(now time.Duration, n *member) bool { return l.holdRemaining(now, n) > 0 }

// holdOf returns for how long its app must be healthy before the node gets shards again.
func (l *Leader) holdTime(now time.Duration, n *member) time.Duration {
	if n.heartbeat.Unhealthy && !n.heartbeat.Gateway && !l.state.Last().Has(n.id) {
		return flapPause(n.heartbeat.App.Falls)
	}
	return l.holdRemaining(now, n)
}

// holdLeft returns for how long the node is held back, if its app stays healthy.
func (l *Leader) holdRemaining(now time.Duration, n *member) time.Duration {
	if !n.heard() || n.heartbeat.Unhealthy || n.heartbeat.Gateway || l.state.Last().Has(n.id) {
		return 0
	}
	return max(n.healthySince+flapPause(n.heartbeat.App.Falls)-now, 0)
}
