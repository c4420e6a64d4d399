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
func Run(ctx context.Context, p *clock.Pulse, log zerolog.Logger) {
	process{used: clock.Used, use: use, all: all}.run(ctx, p, log)
}

// process contains the functions with which Run observes and changes the process. Tests
// replace them.
type process struct {
	used func() (time.Duration, bool) // CPU time so far; false means not known
	use  func(n int)
	all  func() int
}

func (x process) run(ctx context.Context, p *clock.Pulse, log zerolog.Logger) {
	used, known := x.used()
	if !known {
		return
	}
	most := x.all()
	if most == 1 {
		return
	}
	t := p.Every(look)
	defer t.Stop()
	began, n := time.Now(), most
	g := NewGovernor(most, 0, used)
	for {
		select {
		case <-ctx.Done():
			x.all()
			return
		case <-t.C:
		}
		used, _ = x.used()
		next := g.Look(time.Since(began), used)
		if next == n {
			continue
		}
		if next == most {
			most = x.all()
			g.Resize(most)
			next = most
		} else {
			x.use(next)
		}
		log.Debug().Int("processors", next).Int("before", n).Msg("processors changed")
		n = next
	}
}
