package processors

import "time"

const (
	// busyPercent is the utilization of the current processors, in percent, at which the process
	// gets all processors. At that utilization, new work waits for a processor.
	busyPercent = 95
	// halfEnoughPercent is the highest expected utilization of half of the processors, in percent, at which
	// half are considered enough. The actual utilization will be lower, because a request costs
	// less CPU time with fewer processors.
	halfEnoughPercent = 88
	// measureInterval is the approximate interval between two measurements. While other processes
	// are busy, the process gets CPU time in bursts of tens of milliseconds.
	measureInterval = 100 * time.Millisecond
	// halveDelay is how long half of the processors must have been enough before the number is
	// halved. The delay keeps changes rare: each of them briefly stops all goroutines.
	halveDelay = 5 * time.Second
	// maxMeasureDelay is the maximum delay of a measurement. A longer delay means that other processes
	// compete for the processors. More threads then give this process a larger share of them.
	maxMeasureDelay = measureInterval / 2
)

// Governor decides how many processors a process should use, from the CPU time that it uses.
// Only one goroutine may use it.
type Governor struct {
	maximum int // number of processors that the process may use
	current int // number of processors that the process uses

	// Times are durations since the start of the process.
	measuredAt      time.Duration // last measurement
	cpuTime         time.Duration // CPU time that the process had used by then
	halfEnoughSince time.Duration // start of the period in which half of the processors are enough
}

// NewGovernor returns the Governor of a process that may use up to maximum processors. maximum must
// be at least 1. used is the CPU time that the process has used until now. The process begins with
// all processors, because starting is a lot of work.
func NewGovernor(maximum int, now, used time.Duration) *Governor {
	return &Governor{maximum: maximum, current: maximum, measuredAt: now, cpuTime: used, halfEnoughSince: now}
}

// Update returns how many processors to use. It must be called about every 100 ms, with the CPU
// time used so far.
func (g *Governor) Update(now, totalCPU time.Duration) int {
	elapsed, cpuUsed := now-g.measuredAt, totalCPU-g.cpuTime
	if elapsed < measureInterval/2 {
		return g.current // the last measurement was late
	}
	g.measuredAt, g.cpuTime = now, totalCPU
	isDelayed := elapsed >= measureInterval+maxMeasureDelay
	isBusy := cpuUsed*100 >= elapsed*time.Duration(busyPercent*g.current)
	isHalfEnough := g.current > 1 && cpuUsed*100 <= elapsed*time.Duration(halfEnoughPercent*g.halfOfCurrent())
	switch {
	case isDelayed || isBusy:
		g.current, g.halfEnoughSince = g.maximum, now
	case !isHalfEnough:
		g.halfEnoughSince = now
	case now-g.halfEnoughSince >= halveDelay:
		g.current, g.halfEnoughSince = g.halfOfCurrent(), now
	}
	return g.current
}

// SetMaximum sets the maximum number of processors, after the process has begun to use all of them.
func (g *Governor) SetMaximum(maximum int) { g.maximum, g.current = maximum, maximum }

// halfOfCurrent returns half of the current number, rounded up.
func (g *Governor) halfOfCurrent() int { return (g.current + 1) / 2 }
