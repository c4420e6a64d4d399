package proxy

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errBusy reports that a pool's connections are all in use and that none came
// free in time.
var errBusy = errors.New("proxy: all connections in use")

// pool keeps the connections to one place, the app or a node. The one used last
// is used first, so that those not needed grow old and are closed.
type pool struct {
	dial  func(ctx context.Context) (*link, error)
	clock *coarse
	max   int // open at once; zero: any number
	// wary has each connection looked at before it is used again: the other end
	// may have sent more than its answer. Nodes do not.
	wary    bool
	maxIdle int // zero: all

	mu struct {
		sync.Mutex
		idle   []*link // used last is last
		open   int     // idle, in use and being dialed
		wait   []chan *link
		closed bool
	}
}

// take returns a connection without waiting. A nil link with dial true means
// that the caller has a place and is to fill it with p.connect; with dial false
// there is no place, and p.await waits for one. Fresh asks for a connection
// that may carry a request which must not be sent twice: one used just now that
// looks alive, or a new one.
func (p *pool) take(fresh bool) (l *link, dial bool) {
	for {
		oldest := p.clock.now() - freshFor
		l, dial = p.pop(fresh, oldest)
		if dial && l != nil {
			_ = l.Close()
			l.Release()
		}
		if dial || l == nil {
			return nil, dial
		}
		if (fresh || p.wary || l.since < oldest) && !l.Alive() {
			p.drop(l)
			continue
		}
		return l, false
	}
}

// pop takes the connection used last, or else a place to dial for. With fresh,
// old ones stay where they are, for others, unless their place is needed: such a
// one comes with dial, and is the caller's to close.
func (p *pool) pop(fresh bool, oldest time.Duration) (l *link, dial bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.mu.idle)
	if n > 0 {
		l = p.mu.idle[n-1]
	}
	switch usable := l != nil && (!fresh || l.socket && l.since >= oldest); {
	case usable:
		p.mu.idle[n-1] = nil
		p.mu.idle = p.mu.idle[:n-1]
		return l, false
	case p.max == 0 || p.mu.open < p.max:
		p.mu.open++
		return nil, true
	case l != nil:
		p.mu.idle[n-1] = nil
		p.mu.idle = p.mu.idle[:n-1]
		return l, true
	}
	return nil, false
}

// await waits in line until a connection or a place comes free. The connection
// is one that was in use just now; nil means a place.
// One may have come free since take said that there is none.
func (p *pool) await(done <-chan struct{}, limit time.Duration) (*link, error) {
	turn := make(chan *link, 1) // one message: a connection or nil
	p.mu.Lock()
	if p.mu.open < p.max {
		p.mu.open++
		p.mu.Unlock()
		return nil, nil //nolint:nilnil // a place
	}
	p.mu.wait = append(p.mu.wait, turn)
	p.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case l := <-turn:
		return l, nil
	case <-timer.C:
	case <-done:
	}
	if p.giveUp(turn) {
		return nil, errBusy
	}
	if l := <-turn; l != nil { // sent before turn left the line
		p.put(l)
	} else {
		p.free()
	}
	return nil, errBusy
}

// giveUp takes a waiter out of the line; false means that it has been served.
func (p *pool) giveUp(turn chan *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range p.mu.wait {
		if w == turn {
			p.mu.wait = append(p.mu.wait[:i], p.mu.wait[i+1:]...)
			return true
		}
	}
	return false
}

// connect dials for a place that take or await gave.
func (p *pool) connect(ctx context.Context) (*link, error) {
	l, err := p.dial(ctx)
	if err != nil {
		p.free()
		return nil, err
	}
	l.pool = p
	return l, nil
}

// put takes back a connection that can carry another request.
func (p *pool) put(l *link) {
	if len(l.Buffered()) > 0 {
		p.drop(l) // what came behind the answer would be taken for the next one
		return
	}
	l.reused = true
	l.since = p.clock.now()
	p.mu.Lock()
	if len(p.mu.wait) > 0 {
		p.next() <- l
		p.mu.Unlock()
		return
	}
	if p.mu.closed || p.maxIdle > 0 && len(p.mu.idle) >= p.maxIdle {
		p.mu.Unlock()
		p.drop(l)
		return
	}
	l.Idle()
	p.mu.idle = append(p.mu.idle, l)
	p.mu.Unlock()
}

// drop closes a connection and gives its place back.
func (p *pool) drop(l *link) {
	_ = l.Close() // nobody is interested any more
	l.Release()
	p.free()
}

// free gives a place back.
func (p *pool) free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.wait) > 0 {
		p.next() <- nil
		return
	}
	p.mu.open--
}

// next takes the first waiter out of the line. With mu held; its channel has
// room, as it is sent to once.
func (p *pool) next() chan<- *link {
	turn := p.mu.wait[0]
	p.mu.wait = append(p.mu.wait[:0], p.mu.wait[1:]...)
	return turn
}

// reap closes connections that have been idle for longer than age.
func (p *pool) reap(age time.Duration) {
	now := p.clock.now()
	p.mu.Lock()
	n := 0
	for n < len(p.mu.idle) && now-p.mu.idle[n].since > age {
		n++
	}
	old := append([]*link(nil), p.mu.idle[:n]...)
	kept := copy(p.mu.idle, p.mu.idle[n:])
	clear(p.mu.idle[kept:])
	p.mu.idle = p.mu.idle[:kept]
	p.mu.Unlock()
	for _, l := range old {
		p.drop(l)
	}
}

// closeIdle closes all idle connections, and each other one when it comes back.
func (p *pool) closeIdle() {
	p.mu.Lock()
	p.mu.closed = true
	idle := p.mu.idle
	p.mu.idle = nil
	p.mu.Unlock()
	for _, l := range idle {
		p.drop(l)
	}
}

// size returns the number of open connections.
func (p *pool) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.open
}
