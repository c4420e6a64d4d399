package proxy

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// leastTempo is how many sockets a node brings back at once that is late all the time.
	// On a machine of two processors thousands take a quarter longer then than 64 at once;
	// two at once take twice as long.
	leastTempo = 8
	// tempoEvery is how often it is looked how late the node is, while sockets come back.
	tempoEvery = 10 * time.Millisecond
	// lateAfter is how late a node is on which requests wait for sockets.
	lateAfter = 5 * time.Millisecond
	// tempoQuiet is for how long no socket must have been away for the looking to end.
	tempoQuiet = time.Second
)

// tempo is how many kept sockets this node, which has their clients, brings back at once to
// another one, by its own lateness. Each costs two handshakes and the app's upgrade, and all
// that are under way stand in front of a request: in the run queue of the process, and its
// threads in the kernel's. So their number is halved whenever a timer comes late, together
// with all that was ready before it, and grows by one whenever one does not. Clients wait for
// their sockets, too: once some have been away for longer than patience, no lateness counts.
type tempo struct {
	patience time.Duration
	late     func(due time.Time) time.Duration // how late it is
	grown    func()                            // more may come back than before

	few atomic.Int32 // how many fewer than maxUpgrades may come back at once

	mu    sync.Mutex
	away  int       // sockets without a leg
	since time.Time // when the first of them was; zero: nobody looks
	last  time.Time // when one came back
}

// lateness returns how much later than due it is, behind all that are ready.
func lateness(due time.Time) time.Duration {
	runtime.Gosched()
	return time.Since(due)
}

// size returns how many sockets may come back at once.
func (t *tempo) size() int { return maxUpgrades - int(t.few.Load()) }

// leaves notes a socket that is without a leg from now on, until arrives.
func (t *tempo) leaves() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.away++; t.since.IsZero() {
		t.since = time.Now()
		t.look(t.since.Add(tempoEvery))
	}
}

func (t *tempo) arrives() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away--
	t.last = time.Now()
}

// look looks at due how late the node is, and again and again for as long as sockets are
// away.
func (t *tempo) look(due time.Time) {
	time.AfterFunc(time.Until(due), func() {
		before, now := t.size(), due.Add(t.late(due))
		again := t.hear(now.Sub(due), now)
		if t.size() > before {
			t.grown()
		}
		if again {
			t.look(now.Add(tempoEvery))
		}
	})
}

// hear goes by how late the node is, and reports whether that is to be looked at again.
func (t *tempo) hear(late time.Duration, now time.Time) (again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	size := min(t.size()+1, maxUpgrades)
	if late > lateAfter && now.Sub(t.since) < t.patience {
		size = max(t.size()/2, leastTempo)
	}
	t.few.Store(int32(maxUpgrades - size))
	if again = t.away > 0 || now.Sub(t.last) < tempoQuiet; !again {
		t.since = time.Time{}
	}
	return again
}

// more has connections made if more may be than before.
func (p *pool) more() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.line.keeps > 0 {
		p.want()
	}
}

// landed notes that a socket that asked for its next leg has its answer.
func (p *pool) landed(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lands(l)
	p.want()
}

// lands is landed with mu held, also of one that has none.
func (p *pool) lands(l *link) {
	if l.flies {
		l.flies = false
		p.mu.flying--
	}
}
