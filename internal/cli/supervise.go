package cli

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/sdnotify"
)

// readyPollInterval is the interval at which the readiness of the node is checked.
const readyPollInterval = 200 * time.Millisecond

// supervisor notifies the service manager (systemd) of the state of a node: once when the node is
// ready, and then of each change of its status, of reloads and of the stop.
type supervisor struct {
	manager sdnotify.Manager
	node    interface {
		Ready() error
		Started() <-chan struct{}
	}
	log zerolog.Logger

	mu struct {
		sync.Mutex
		ready  bool   // READY=1 was sent
		status string // last status that was sent
		failed bool   // a notification failed, and the failure was logged
	}
}

// run sends notifications until ctx ends. The end of ctx also stops the node.
func (s *supervisor) run(ctx context.Context) {
	if !s.manager.IsPresent() {
		return
	}
	defer s.notify(sdnotify.Stopping, sdnotify.Status("stopping"))
	select {
	case <-ctx.Done():
		return
	case <-s.node.Started():
	}
	ticker := time.NewTicker(readyPollInterval)
	defer ticker.Stop()
	for {
		s.update()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// update sends the changes since the last update.
func (s *supervisor) update() {
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
		s.notifyLocked(lines)
	}
}

// reload runs reloadSettings and notifies the service manager before and after it. It sends nothing for a
// node that is not ready yet, because the end of a reload means ready.
func (s *supervisor) reload(reloadSettings func()) {
	s.mu.Lock()
	isReady := s.mu.ready
	if isReady {
		s.notifyLocked(sdnotify.Reloading())
	}
	s.mu.Unlock()
	reloadSettings()
	if isReady {
		s.notify(sdnotify.Ready)
	}
}

// notify sends lines to the service manager.
func (s *supervisor) notify(lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notifyLocked(lines)
}

// notifyLocked sends lines. s.mu must be held.
func (s *supervisor) notifyLocked(lines []string) {
	if err := s.manager.Notify(lines...); err != nil && !s.mu.failed {
		s.mu.failed = true
		s.log.Warn().Err(err).Str("word", strings.Join(lines, " ")).Msg("service manager not notified")
	}
}
