package processors

import "time"

const (
	// busy is the utilization of the current processors, in percent, from which on the process
	// gets all processors. At that utilization, new work waits for a processor.
	busy = 95
	// spare is the highest expected utilization of half of the processors, in percent, at which
	// half are considered enough. The actual utilization will be lower, because a request costs
	// less CPU time with fewer processors.
	spare = 88
	// look is the approximate interval between two measurements. Next to other busy
	// processes, the process gets CPU time in bursts of tens of milliseconds.
	look = 100 * time.Millisecond
	// calm is how long half of the processors must have been enough before the number is
	// halved. The delay keeps changes rare: each of them briefly stops all goroutines.
	calm = 5 * time.Second
	// behind is the maximum delay of a measurement. A longer delay means that other processes
	// compete for the processors. More threads then give this process a larger share of them.
	behind = look / 2
)

// Governor decides how many processors a process should use, from the CPU time that it uses.
// Only one goroutine may use it.
type Governor struct {
	most, now int

	at, by time.Duration // time of the last measurement, and the CPU time used by then
	since  time.Duration // time since which half of the processors have been enough
}

// NewGovernor returns the Governor of a process that may use up to most processors, which must
// be at least 1. used is the CPU time that the process has used until now. The process begins
// with all processors, because a start is much work.
func NewGovernor(most int, now, used time.Duration) *Governor {
	return &Governor{most: most, now: most, at: now, by: used, since: now}
}

// Look returns how many processors to use. It must be called about every 100 ms, with the CPU
// time used so far.
func (g *Governor) Look(now, used time.Duration) int {
	passed, did := now-g.at, used-g.by
	if passed < look/2 {
		return g.now // the last measurement was late
	}
	g.at, g.by = now, used
	switch {
	case passed >= look+behind || did*100 >= passed*time.Duration(busy*g.now):
		g.now, g.since = g.most, now
	case g.now == 1 || did*100 > passed*time.Duration(spare*g.half()):
		g.since = now
	case now-g.since >= calm:
		g.now, g.since = g.half(), now
	}
	return g.now
}

// Resize sets the maximum number of processors, after the process has begun to use all of them.
func (g *Governor) Resize(most int) { g.most, g.now = most, most }

// half returns half of the current number, rounded up.
func (g *Governor) half() int { return (g.now + 1) / 2 }
