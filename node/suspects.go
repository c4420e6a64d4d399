package node

import (
	"context"
	"sync"
	"time"

	"shardway/internal/clock"
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
	port  *peer.Port
	clock clock.Clock
	// refused is told that nobody listens where the node was; the redial began at
	// the given time, by the clock. It returns true if that was too early to count.
	refused func(node string, gone suspect, began time.Duration) (again bool)

	ctx context.Context // of the run: investigations end with it
	wg  sync.WaitGroup

	mu struct {
		sync.Mutex
		broken map[string]breaking
		busy   map[string]bool
	}
}

// suspect is the process at the other end of a heartbeat connection. The nonce is
// zero if that sent none: it was the leader, which hears heartbeats.
type suspect struct{ boot, nonce uint64 }

type breaking struct {
	suspect
	at time.Time
}

func newSuspects(port *peer.Port, c clock.Clock, refused func(string, suspect, time.Duration) bool) *suspects {
	s := &suspects{port: port, clock: c, refused: refused}
	s.mu.broken, s.mu.busy = map[string]breaking{}, map[string]bool{}
	return s
}

// broke notes that a heartbeat connection with this process of node ended, and
// looks after it. Of one boot, the connection that told the nonce counts.
func (s *suspects) broke(node string, gone suspect) {
	s.mu.Lock()
	was, now := s.mu.broken[node], time.Now()
	if gone.nonce == 0 && gone.boot == was.boot {
		gone.nonce = was.nonce
	}
	// A lower boot is one that ended before, but its disk may have been emptied since.
	if was.boot <= gone.boot || now.Sub(was.at) > suspectFor {
		s.mu.broken[node] = breaking{suspect: gone, at: now}
	}
	s.mu.Unlock()
	s.investigate(node)
}

// again investigates everybody whose connection broke lately: evidence counts
// for a leader only if the redial began after its election.
func (s *suspects) again() {
	s.mu.Lock()
	now := time.Now()
	var todo []string
	for node, b := range s.mu.broken {
		if now.Sub(b.at) > suspectFor {
			delete(s.mu.broken, node)
			continue
		}
		todo = append(todo, node)
	}
	s.mu.Unlock()
	for _, node := range todo {
		s.investigate(node)
	}
}

// investigate redials the node in the background, once at a time.
func (s *suspects) investigate(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.busy[node] || s.ctx.Err() != nil {
		return
	}
	s.mu.busy[node] = true
	gone := s.mu.broken[node].suspect
	s.wg.Go(func() {
		for more := true; more; {
			s.redial(node, gone)
			gone, more = s.next(node, gone)
		}
	})
}

// next returns what else has broken meanwhile, or ends the investigation.
func (s *suspects) next(node string, told suspect) (gone suspect, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.mu.broken[node]; ok && b.suspect != told && s.ctx.Err() == nil {
		return b.suspect, true
	}
	delete(s.mu.busy, node)
	return suspect{}, false
}

// redial ends at the first answer of any kind: a node that speaks is alive, and
// one that says nothing leaves the question to the leases.
func (s *suspects) redial(node string, gone suspect) {
	pause := redialPause
	for range redials {
		began := s.clock.Precise() // before the dial: it shows what was after that
		ctx, cancel := context.WithTimeout(s.ctx, redialLimit)
		c, err := s.port.Dial(ctx, node, peer.Control)
		cancel()
		if err == nil {
			closeStream(c)
			return
		}
		if peer.IsRefused(err) && !s.refused(node, gone, began) {
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
