package keylimit

import "slices"

// EarlierRun is a request that was already running when the limit of a Gate was switched on. It has no place.
type EarlierRun struct {
	Shard uint32
	// IsOver reports whether the request has ended.
	IsOver func() bool

	wasOver bool // at the previous call of RemoveEnded
}

// SwitchOn switches the limits of gates on while requests run, and returns the number of these requests. start
// makes the limits visible to new requests, and returns the requests that run without a place. A request that has
// not begun to run when start makes the limits visible must call Join before it runs.
//
// The keys of earlier requests are not known. Until such a request ends, it therefore counts for each key of its
// shard. Join waits until SwitchOn returns. Only one SwitchOn may run at a time.
func SwitchOn(gates []*Gate, start func() []EarlierRun) (earlier int) {
	for _, gate := range gates {
		gate.mu.Lock()
		defer gate.mu.Unlock()
	}
	runs := start()
	for _, gate := range gates {
		gate.earlierRuns = slices.Clone(runs)
		gate.countEarlierLocked()
	}
	return len(runs)
}

// RemoveEnded removes earlier requests that have ended, and gives their places to waiters. It must be
// called at intervals.
//
// A request is removed at the second call that finds it ended, because its connection to the app may be
// closed shortly after the end.
func (g *Gate) RemoveEnded() {
	if !g.hasEarlier.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.earlierRuns = slices.DeleteFunc(g.earlierRuns, func(run EarlierRun) bool { return run.wasOver })
	for i := range g.earlierRuns {
		g.earlierRuns[i].wasOver = g.earlierRuns[i].IsOver()
	}
	g.countEarlierLocked()
	for id := range g.keys {
		g.grantLocked(id)
	}
}

// countEarlierLocked counts the earlier requests by shard. g.mu must be held.
func (g *Gate) countEarlierLocked() {
	g.hasEarlier.Store(len(g.earlierRuns) > 0)
	g.earlier = nil
	if len(g.earlierRuns) == 0 {
		return
	}
	g.earlier = make(map[uint32]int)
	for _, run := range g.earlierRuns {
		g.earlier[run.Shard]++
	}
}
