package processors

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/clock"
)

// Run has the process use as many processors as it needs, up to those that it may use when
// Run begins, until ctx ends; then all of them. It looks by the beats of p. Where the
// platform does not tell what a process uses, or it may use one only, it returns at once.
func Run(ctx context.Context, p *clock.Pulse, log zerolog.Logger) {
	process{used: clock.Used, use: use, all: all}.run(ctx, p, log)
}

// process is what Run looks at, and what it changes.
type process struct {
	used func() (time.Duration, bool) // processor time so far; false: not known
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
