package processors

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/clock"
)

// Run adjusts GOMAXPROCS to the load until ctx ends, and then sets it to the maximum. It
// measures the load at ticks of p. Run returns immediately if the process may use only one
// processor, or if the platform does not report the CPU time of a process.
func Run(ctx context.Context, p *clock.Scheduler, log zerolog.Logger) {
	process{cpuTime: clock.CPUTime, setCount: setCount, setMaximum: setMaximum}.run(ctx, p, log)
}

// process contains the functions with which Run observes and changes the process. Tests
// replace them.
type process struct {
	cpuTime    func() (time.Duration, bool) // CPU time so far; false means not known
	setCount   func(n int)
	setMaximum func() int
}

func (x process) run(ctx context.Context, p *clock.Scheduler, log zerolog.Logger) {
	used, known := x.cpuTime()
	if !known {
		return
	}
	most := x.setMaximum()
	if most == 1 {
		return
	}
	t := p.NewTicker(measureInterval)
	defer t.Stop()
	began, n := time.Now(), most
	g := NewGovernor(most, 0, used)
	for {
		select {
		case <-ctx.Done():
			x.setMaximum()
			return
		case <-t.C:
		}
		used, _ = x.cpuTime()
		next := g.Update(time.Since(began), used)
		if next == n {
			continue
		}
		if next == most {
			most = x.setMaximum()
			g.SetMaximum(most)
			next = most
		} else {
			x.setCount(next)
		}
		log.Debug().Int("processors", next).Int("before", n).Msg("processors changed")
		n = next
	}
}
