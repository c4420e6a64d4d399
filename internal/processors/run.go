package processors

import (
	"context"
	"runtime"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/clock"
)

// lookEvery is how often the process is looked at.
const lookEvery = 2 * clock.EveryBeat

// Run has the process use as many processors as it needs, up to those that it may use when
// Run begins, until ctx ends; then all of them. It looks by the beats of p. Where the
// platform does not tell what a process uses, or it may use one only, it returns at once.
func Run(ctx context.Context, p *clock.Pulse, log zerolog.Logger) {
	process{used: clock.Used, use: func(n int) { runtime.GOMAXPROCS(n) }, all: all}.run(ctx, p, log)
}

// all has the process use all processors that it may use now, and returns how many they
// are: the limit of its control group can change.
func all() int {
	runtime.SetDefaultGOMAXPROCS()
	return runtime.GOMAXPROCS(0)
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
	t := p.Every(lookEvery)
	defer t.Stop()
	began, last, n := time.Now(), time.Duration(0), most
	g := NewGovernor(most, 0, used)
	for {
		select {
		case <-ctx.Done():
			x.all()
			return
		case <-t.C:
		}
		now := time.Since(began)
		used, _ = x.used()
		late := now - last - lookEvery
		last = now
		next := g.Look(now, used, late)
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
		log.Debug().Int("processors", next).Int("before", n).Dur("late", late).Msg("processors changed")
		n = next
	}
}
