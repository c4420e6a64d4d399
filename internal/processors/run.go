package processors

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/clock"
)

// Run adjusts GOMAXPROCS to the load until ctx ends, and then sets it to the maximum. It measures
// the load at ticks of the scheduler. Run returns immediately if the process may use only one
// processor, or if the platform does not report the CPU time of a process.
func Run(ctx context.Context, scheduler *clock.Scheduler, log zerolog.Logger) {
	process{cpuTime: clock.CPUTime, setCount: setCount, setMaximum: setMaximum}.run(ctx, scheduler, log)
}

// process contains the functions with which Run observes and changes the process. Tests
// replace them.
type process struct {
	cpuTime    func() (time.Duration, bool) // CPU time so far; false means not known
	setCount   func(n int)
	setMaximum func() int
}

// run adjusts the number of processors to the CPU usage of the process until ctx ends, and then restores the maximum.
func (p process) run(ctx context.Context, scheduler *clock.Scheduler, log zerolog.Logger) {
	used, known := p.cpuTime()
	if !known {
		return
	}
	maximum := p.setMaximum()
	if maximum == 1 {
		return
	}
	ticker := scheduler.NewTicker(measureInterval)
	defer ticker.Stop()
	start, current := time.Now(), maximum
	governor := NewGovernor(maximum, 0, used)
	for {
		select {
		case <-ctx.Done():
			p.setMaximum()
			return
		case <-ticker.C:
		}
		used, _ = p.cpuTime()
		next := governor.Update(time.Since(start), used)
		if next == current {
			continue
		}
		if next == maximum {
			maximum = p.setMaximum()
			governor.SetMaximum(maximum)
			next = maximum
		} else {
			p.setCount(next)
		}
		log.Debug().Int("processors", next).Int("before", current).Msg("processors changed")
		current = next
	}
}
