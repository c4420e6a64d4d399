package ack

import "time"

// panicHold is for how long at most half of the apps must have been unhealthy before their
// health counts again. Apps that share a dependency recover one after the other.
const panicHold = 5 * time.Second

// maxFalls bounds AppHealth.Falls; damping has reached its longest pause long before.
const maxFalls = 1000

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
type appHealth struct {
	// panics reports that most apps are unhealthy, or were within panicHold: then health
	// moves no shards. most reports that they are now.
	panics, most bool
	// calm is when most of them were unhealthy last.
	calm time.Duration
	// failing and refused report that most apps are unhealthy or may be so in a moment:
	// their last checks failed, or were refused. A leader just elected counts an app that
	// it has not heard of yet.
	failing, refused bool
	// nobody reports that no node may own shards but those whose return is held back.
	nobody bool
}

// lookAtApps draws the conclusions of one step.
func (l *Leader) lookAtApps(now time.Duration) {
	var apps, unhealthy, failing, refused int
	for _, m := range l.state.Last().Members() {
		l.node(m.ID)
	}
	h := &l.apps
	held := false
	for _, n := range l.nodes {
		held = held || l.heldBack(now, n)
		if !l.countsApp(now, n) {
			continue
		}
		apps++
		switch {
		case !n.heard():
			failing++
			refused++
		case n.beat.Unhealthy || n.beat.App.Failing:
			failing++
			if n.beat.Unhealthy {
				unhealthy++
			}
			if n.beat.App.Refused {
				refused++
			}
		}
	}
	h.failing, h.refused = 2*failing > apps, 2*refused > apps
	if h.most = 2*unhealthy > apps; h.most {
		h.panics, h.calm = true, now
	} else if now-h.calm > panicHold {
		h.panics = false
	}
	if h.nobody = false; held {
		h.nobody = true
		for id, n := range l.nodes {
			if l.eligibleBut(now, n) && !l.heldBack(now, n) && !l.absent(n) && !l.state.Policy().empties(id) {
				h.nobody = false
			}
		}
	}
}

// countsApp reports whether the app of a node counts when most apps are looked for: it may
// own shards but for its health. An app that has not started yet never owned any.
func (l *Leader) countsApp(now time.Duration, n *member) bool {
	member := l.state.Last().Has(n.id)
	switch {
	case n.removed, n.crashed(), n.beat.Gateway, n.beat.Leaving, n.beat.Goodbye, l.state.Policy().Drained[n.id], l.absent(n):
		return false
	case !n.heard():
		return member && now-l.elected < l.t.DeadAfter
	}
	return !n.silent(now, l.o.Pace) && (member || !n.beat.App.Starting)
}

// leavesForHealth reports that a node may not be in the next map because its app is
// unhealthy. A member stays where most apps are unhealthy, because its shards would go from
// one unhealthy app to the next. It waits for a moment where most may turn out to be. An app
// that refuses connections is left at once, unless most apps do.
func (l *Leader) leavesForHealth(n *member) bool {
	if !n.beat.Unhealthy {
		return false
	}
	switch h := l.apps; {
	case !l.state.Last().Has(n.id):
		return true
	case n.beat.App.Refused:
		return !h.most && !h.refused
	default:
		return !h.panics && !h.failing
	}
}

// heldBack reports that the app of a node that has left the map recovered too recently for
// how often it became unhealthy.
func (l *Leader) heldBack(now time.Duration, n *member) bool { return l.holdLeft(now, n) > 0 }

// holdOf returns for how long its app must be healthy before the node gets shards again.
func (l *Leader) holdOf(now time.Duration, n *member) time.Duration {
	if n.beat.Unhealthy && !n.beat.Gateway && !l.state.Last().Has(n.id) {
		return damping(n.beat.App.Falls)
	}
	return l.holdLeft(now, n)
}

// holdLeft returns for how long the node is held back, if its app stays healthy.
func (l *Leader) holdLeft(now time.Duration, n *member) time.Duration {
	if !n.heard() || n.beat.Unhealthy || n.beat.Gateway || l.state.Last().Has(n.id) {
		return 0
	}
	return max(n.healthySince+damping(n.beat.App.Falls)-now, 0)
}
