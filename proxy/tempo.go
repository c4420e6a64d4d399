package proxy

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// firstTempo is how many sockets a node brings back at once before it knows how late that
	// makes it: as many again each time it is looked, until it is.
	firstTempo = 8
	// leastTempo is the same of a node that is late all the time.
	leastTempo = 1
	// tempoEvery is how often it is looked how late the node is, while sockets come back.
	tempoEvery = 10 * time.Millisecond
	// lateAfter is how late a node is on which requests wait for sockets.
	lateAfter = 2 * time.Millisecond
	// slowAfter is how much longer a connection may take than twice the quickest one to the
	// same node: then that is late, or what is between.
	slowAfter = 5 * time.Millisecond
	// slowAnswer is the same of an answer that comes by a lane, which the app takes part in.
	slowAnswer = 25 * time.Millisecond
	// behindEvery is how often there is one more for a node that is late and behind: it takes a
	// while until that shows.
	behindEvery = 10 * tempoEvery
	// tempoQuiet is for how long no socket must have been away for the looking to end.
	tempoQuiet = time.Second
)

// tempo is how many kept sockets this node, which has their clients, brings back at once to
// another one. Each costs two handshakes and the app's upgrade, and all that are under way
// stand in front of a request: in the run queues of both processes, and their threads in the
// kernel's. So it begins with few. Their number is halved whenever a timer comes late,
// together with all that was ready before it, or the other node is late with a handshake; it
// grows by one, before the first such time by all, whenever neither is. Clients wait for
// their sockets, too: what keeps those from all being back within patience does not count.
type tempo struct {
	patience time.Duration
	late     func(due time.Time) time.Duration // how late it is
	grown    func()                            // more may come back than before

	few  atomic.Int32 // how many fewer than maxUpgrades may come back at once
	slow atomic.Bool  // another node was late since the last look
	wave atomic.Int64 // counts the waves in which sockets went away

	mu    sync.Mutex
	away  int       // sockets without a leg
	newer int       // how many left after patience with those of this count was over
	since time.Time // when the first of this count was away; zero: nobody looks
	last  time.Time // when one came back
	first time.Time // when the first one did since then; zero: none has
	back  int       // how many have
	eager bool      // it has not been late since then

	raised time.Time // when there were more because it was behind
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
	t.away++
	now, looked := time.Now(), !t.since.IsZero()
	if now.Sub(t.since) >= t.patience {
		t.newer++
	}
	// Those of before are back, or too late and no more than have left since: an app may take
	// long for one. If they are more, all go by them: they are to be back before they are given up.
	if t.away == 1 || 2*t.newer >= t.away {
		t.since, t.first, t.back, t.newer = now, time.Time{}, 0, 0
		t.wave.Add(1)
	}
	if !looked {
		t.eager = true
		t.resize(firstTempo)
		t.look(t.since.Add(tempoEvery))
	}
}

func (t *tempo) arrives() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away--
	t.back++
	if t.last = time.Now(); t.first.IsZero() {
		t.first = t.last
	}
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
	isLate := t.slow.Swap(false) || late > lateAfter
	switch {
	case isLate && t.behind(now):
		if now.Sub(t.raised) >= behindEvery {
			t.raised = now
			t.resize(t.size() + 1)
		}
	case isLate:
		t.eager = false
		t.resize(t.size() / 2)
	case t.first.IsZero(): // it is not known yet what one costs
	case t.eager:
		t.resize(2 * t.size())
	default:
		t.resize(t.size() + 1)
	}
	if again = t.away > 0 || now.Sub(t.last) < tempoQuiet; !again {
		t.since = time.Time{}
	}
	return again
}

// behind reports whether at this rate not all will be back within patience. With mu held.
func (t *tempo) behind(now time.Time) bool {
	if t.first.IsZero() {
		return false
	}
	past, left := now.Sub(t.first), t.patience-t.first.Sub(t.since)
	return past >= left || float64(t.back) < float64(t.away+t.back)*float64(past)/float64(left)
}

// resize has so many come back at once, within the bounds. With mu held.
func (t *tempo) resize(n int) { t.few.Store(int32(maxUpgrades - min(max(n, leastTempo), maxUpgrades))) }

// dialed notes how long a handshake of the pool took for one that waits to come back.
// With mu held.
func (p *pool) dialed(took time.Duration) {
	if p.mu.line.keeps == 0 {
		return
	}
	p.mu.shakes.judge(p.tempo, took, slowAfter)
}

// quickest is how long the quickest of something took since sockets began to be away, for the
// time that tempo counts.
type quickest struct {
	took time.Duration
	wave int64
}

// judge judges one that took so long.
func (q *quickest) judge(t *tempo, took, after time.Duration) {
	if wave := t.wave.Load(); wave != q.wave || took < q.took {
		q.wave, q.took = wave, took // the path may be another one than last time
	}
	if took > 2*q.took+after {
		t.slow.Store(true)
	}
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
	if l.lone && l.flies {
		p.mu.flights.judge(p.tempo, p.clock.exact()-l.since, slowAnswer)
	}
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
