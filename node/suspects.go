package node

import (
	"context"
	"sync"
	"time"

	"shardway/peer"
)

const (
	// redials and redialPause bound one investigation. The kernel closes a killed
	// process's descriptors one by one, so its listener may outlive the
	// connection that broke by a moment.
	redials     = 8
	redialPause = 5 * time.Millisecond
	redialLimit = 200 * time.Millisecond
	// suspectFor is how long a broken connection is remembered for the next
	// leader.
	suspectFor = 10 * time.Second
)

// suspects finds out whether a node whose heartbeat connection broke is gone: a
// redial that is refused is crash evidence for the boot of that connection. What
// breaks on a follower is kept for the case that it is elected.
type suspects struct {
	port *peer.Port
	// refused is told that nobody listens where the node was; the redial began at
	// the given time. It returns true if that was too early to count.
	refused func(node string, boot uint64, began time.Time) (again bool)

	ctx context.Context // of the run: investigations end with it
	wg  sync.WaitGroup

	mu struct {
		sync.Mutex
		broken map[string]suspect
		busy   map[string]bool
	}
}

type suspect struct {
	boot uint64
	at   time.Time
}

func newSuspects(port *peer.Port, refused func(string, uint64, time.Time) bool) *suspects {
	s := &suspects{port: port, refused: refused}
	s.mu.broken, s.mu.busy = map[string]suspect{}, map[string]bool{}
	return s
}

// broke notes that a heartbeat connection with this boot of node ended, and
// looks after it.
func (s *suspects) broke(node string, boot uint64) {
	s.mu.Lock()
	if s.mu.broken[node].boot <= boot {
		s.mu.broken[node] = suspect{boot: boot, at: time.Now()}
	}
	s.mu.Unlock()
	s.investigate(node, boot)
}

// again investigates everybody whose connection broke lately: evidence counts
// for a leader only if the redial began after its election.
func (s *suspects) again() {
	s.mu.Lock()
	now := time.Now()
	var todo []string
	for node, su := range s.mu.broken {
		if now.Sub(su.at) > suspectFor {
			delete(s.mu.broken, node)
			continue
		}
		todo = append(todo, node)
	}
	broken := make(map[string]uint64, len(todo))
	for _, node := range todo {
		broken[node] = s.mu.broken[node].boot
	}
	s.mu.Unlock()
	for node, boot := range broken {
		s.investigate(node, boot)
	}
}

// investigate redials the node in the background, once at a time.
func (s *suspects) investigate(node string, boot uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.busy[node] || s.ctx.Err() != nil {
		return
	}
	s.mu.busy[node] = true
	s.wg.Go(func() {
		defer s.idle(node)
		s.redial(node, boot)
	})
}

func (s *suspects) idle(node string) {
	s.mu.Lock()
	delete(s.mu.busy, node)
	s.mu.Unlock()
}

// redial ends at the first answer of any kind: a node that speaks is alive, and
// one that says nothing leaves the question to the leases.
func (s *suspects) redial(node string, boot uint64) {
	pause := redialPause
	for range redials {
		began := time.Now()
		ctx, cancel := context.WithTimeout(s.ctx, redialLimit)
		c, err := s.port.Dial(ctx, node, peer.Control)
		cancel()
		if err == nil {
			hangUp(c)
			return
		}
		if peer.IsRefused(err) && !s.refused(node, boot, began) {
			return
		}
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// wait returns after the last investigation; the run's context has ended.
func (s *suspects) wait() { s.wg.Wait() }
