package node

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// stack stops what was started, the last first. Each step has a name, so that a
// stop that hangs can be told from the log.
type stack struct {
	log   zerolog.Logger
	steps []step
}

type step struct {
	name string
	stop func()
}

func (s *stack) push(name string, stop func()) { s.steps = append(s.steps, step{name, stop}) }

// spawn runs f in a goroutine until its step is reached: then its context ends
// and the step waits for it. So does stop, for whoever cannot wait for its turn.
func (s *stack) spawn(ctx context.Context, name string, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	stop = func() {
		cancel()
		wg.Wait()
	}
	s.push(name, stop)
	return stop
}

func (s *stack) unwind() {
	for len(s.steps) > 0 {
		top := s.steps[len(s.steps)-1]
		s.steps = s.steps[:len(s.steps)-1]
		began := time.Now()
		top.stop()
		s.log.Debug().Str("step", top.name).Dur("took", time.Since(began)).Msg("component stopped")
	}
}
