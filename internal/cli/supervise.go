package cli

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/sdnotify"
)

// lookEvery is how often a node is asked whether it is ready, for the service manager.
const lookEvery = 200 * time.Millisecond

// supervised is a node of which the service manager wants to know: that it is ready,
// once, and from then on what it says of itself, that it reloads, and that it stops.
type supervised struct {
	manager sdnotify.Manager
	node    interface {
		Ready() error
		Started() <-chan struct{}
	}
	log zerolog.Logger

	mu struct {
		sync.Mutex
		ready  bool   // it was said
		status string // as it was said last
		failed bool   // telling failed, and the log has it
	}
}

// run tells of the node until ctx ends, which stops the node.
func (s *supervised) run(ctx context.Context) {
	if !s.manager.Asked() {
		return
	}
	defer s.tell(sdnotify.Stopping, sdnotify.Status("stopping"))
	select {
	case <-ctx.Done():
		return
	case <-s.node.Started():
	}
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		s.look()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// look tells what has changed.
func (s *supervised) look() {
	status := "serving"
	err := s.node.Ready()
	if err != nil {
		status = "not ready: " + err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	if err == nil && !s.mu.ready {
		s.mu.ready = true
		lines = append(lines, sdnotify.Ready)
	}
	if status != s.mu.status {
		s.mu.status = status
		lines = append(lines, sdnotify.Status(status))
	}
	if len(lines) > 0 {
		s.send(lines)
	}
}

// reload runs f, which reads the settings again, and tells of it. A node that is not
// ready yet says nothing: it would be taken for ready afterwards.
func (s *supervised) reload(f func()) {
	s.mu.Lock()
	ready := s.mu.ready
	if ready {
		s.send(sdnotify.Reloading())
	}
	s.mu.Unlock()
	f()
	if ready {
		s.tell(sdnotify.Ready)
	}
}

func (s *supervised) tell(lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send(lines)
}

// send sends lines; s.mu is held.
func (s *supervised) send(lines []string) {
	if err := s.manager.Tell(lines...); err != nil && !s.mu.failed {
		s.mu.failed = true
		s.log.Warn().Err(err).Str("word", strings.Join(lines, " ")).Msg("service manager not notified")
	}
}
