//go:build linux

package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"shardway/e2e/history"
)

const (
	// stallLook is how often the clock is looked at, stall how late that must be to
	// be noted: the nodes look at theirs as often.
	stallLook = 10 * time.Millisecond
	stall     = 100 * time.Millisecond
)

// stalls are the times in which the machine had none for the test.
type stalls struct {
	mu    sync.Mutex
	found []history.Fault
}

// watch looks at the clock until ctx ends.
func (s *stalls) watch(ctx context.Context) {
	t := time.NewTicker(stallLook)
	defer t.Stop()
	for last := history.Now(); ; {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		now := history.Now()
		if now-last >= int64(stall) {
			s.mu.Lock()
			s.found = append(s.found, history.Fault{Kind: history.Stalled, From: last, Until: now})
			s.mu.Unlock()
		}
		last = now
	}
}

func (s *stalls) all() []history.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.found)
}
