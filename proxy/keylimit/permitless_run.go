package keylimit

import "slices"

// PermitlessRun is a request that was already running when the limit of a Gate was enabled. It runs without a
// permit.
type PermitlessRun struct {
	Shard uint32
	// HasEnded reports whether the request has ended. Any goroutine may call it.
	HasEnded func() bool

	wasEnded bool // at the previous call of RemoveEndedRuns
}

// Enable enables the limits of gates while requests run, and returns the number of these requests. start makes
// the limits visible to new requests, and returns the requests that run without a permit. A request that has not
// begun to run when start makes the limits visible must call Join before it runs.
//
// The keys of permitless runs are not known. Until such a run ends, it therefore counts for each key of its shard.
// Join waits until Enable returns. Only one Enable may run at a time.
func Enable(gates []*Gate, start func() []PermitlessRun) (permitless int) {
	for _, gate := range gates {
		gate.mu.Lock()
		defer gate.mu.Unlock()
	}
	runs := start()
	for _, gate := range gates {
		gate.permitlessRuns = slices.Clone(runs)
		gate.countPermitlessLocked()
	}
	return len(runs)
}

// RemoveEndedRuns removes permitless runs that have ended, and gives permits to waiters in their place. It must
// be called at intervals.
//
// A run is removed at the second call that finds it ended, because its connection to the app may be closed
// shortly after the end.
func (g *Gate) RemoveEndedRuns() {
	if !g.hasPermitless.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.permitlessRuns = slices.DeleteFunc(g.permitlessRuns, func(run PermitlessRun) bool { return run.wasEnded })
	for i := range g.permitlessRuns {
		g.permitlessRuns[i].wasEnded = g.permitlessRuns[i].HasEnded()
	}
	g.countPermitlessLocked()
	for id := range g.keys {
		g.grantLocked(id)
	}
}

// countPermitlessLocked counts the permitless runs by shard. g.mu must be held.
func (g *Gate) countPermitlessLocked() {
	g.hasPermitless.Store(len(g.permitlessRuns) > 0)
	g.permitlessCount = nil
	if len(g.permitlessRuns) == 0 {
		return
	}
	g.permitlessCount = make(map[uint32]int)
	for _, run := range g.permitlessRuns {
		g.permitlessCount[run.Shard]++
	}
}
