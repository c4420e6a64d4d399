package peer

import (
	"context"
	"sync"
	"time"

	"shardway/internal/clock"
)

// grainOfLooks is how often it is looked which read is to look.
const grainOfLooks = clock.EveryBeat

// looks makes the reads of prompt connections look. A deadline of each read's own, set anew
// for each, would wake an idle process dozens of times a second: here they share what wakes
// it anyway. A pulse is a timer, so no backlog holds it up.
type looks struct {
	backlog backlog

	mu    sync.Mutex
	conns map[*prompt]struct{}
}

// add has the reads of c look; drop ends that.
func (l *looks) add(c *prompt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		l.conns = make(map[*prompt]struct{})
	}
	l.conns[c] = struct{}{}
}

func (l *looks) drop(c *prompt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// run returns when ctx ends: reads wait for the poller alone from then on.
func (l *looks) run(ctx context.Context, p *clock.Pulse) {
	t := p.WhileBusy(grainOfLooks)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		l.tell(time.Now())
	}
}

// tell has the reads look whose time it is, or will be sooner than at the next beat.
func (l *looks) tell(now time.Time) {
	now = now.Add(grainOfLooks / 2)
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.look(now)
	}
}
