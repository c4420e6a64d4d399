package shutdown

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Stack stops the components of a node in reverse order of their start. Each step has a name, which is logged, so
// that the log shows which component does not stop.
type Stack struct {
	Log   zerolog.Logger
	steps []step
}

// step stops one component.
type step struct {
	name string
	stop func()
}

// Push adds a step, which Unwind performs before all earlier ones.
func (s *Stack) Push(name string, stop func()) { s.steps = append(s.steps, step{name, stop}) }

// Spawn runs f in a goroutine and adds a step that ends the context of f and waits until f has returned.
// The context does not end when ctx ends. A caller that must stop f before its step is reached calls stop,
// which does the same.
func (s *Stack) Spawn(ctx context.Context, name string, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	stop = func() {
		cancel()
		wg.Wait()
	}
	s.Push(name, stop)
	return stop
}

// Unwind performs all steps, the last one first.
func (s *Stack) Unwind() {
	for len(s.steps) > 0 {
		top := s.steps[len(s.steps)-1]
		s.steps = s.steps[:len(s.steps)-1]
		startedAt := time.Now()
		top.stop()
		s.Log.Debug().Str("step", top.name).Dur("took", time.Since(startedAt)).Msg("component stopped")
	}
}
