package proxy

import (
	"errors"
	"time"

	"shardway/shardmap"
)

// What a wait for a connection may end with, beside what dialing says.
var (
	// errBusy reports that a pool's connections are all in use and that none came
	// free in time.
	errBusy = errors.New("proxy: all connections in use")
	// errShare is the same for the share of one shard.
	errShare = errors.New("proxy: all connections of the shard's share in use")
	// errCrowded reports that as many requests of the shard are under way as may be.
	errCrowded = errors.New("proxy: too many requests of the shard")
	// errDialing reports that connections are being made and that none was in time.
	errDialing = errors.New("proxy: no connection was made in time")
	// errLook asks to look at the table again: another place serves the shard, or
	// the pool is another one by now.
	errLook = errors.New("proxy: look again")
	// errStopping is the end of the app's connections.
	errStopping = errors.New("proxy: this node is stopping")
	// errShut reports that the gate is shut.
	errShut = errors.New("proxy: waiting for its turn to ask")
	// errNoApp is why the gate of a node is shut whose app takes no connections.
	errNoApp = errors.New("proxy: the app behind the owner accepts no connections")
)

// waiter is a request in line for a connection.
type waiter struct {
	place  int  // the shard it counts for, or unshared: then it looks for no other place
	fresh  bool // as for pool.take
	most   int  // as for pool.take
	unused bool // it takes none that is idle: those that carried it before broke
	keeps  bool // it gives none back: a socket on its way back
	lane   bool // and a lane will do
	parked bool // it waits for its shard's share first, or with crowd for its bound
	// patient: it has waited for its shard and goes on in line, where others are refused.
	patient, crowd bool
	turn           chan turn

	in         *line
	prev, next *waiter
}

// turn is what a waiter is sent, once: a connection, or why there is none.
type turn struct {
	l   *link
	err error
}

// line is a first-in-first-out line of waiters that any of them can leave from
// the middle.
type line struct {
	head, tail *waiter
	n          int
	keeps      int // of these, those that give nothing back
	free       int // and those that no bound of their shard holds up
	// last has those stand behind all others, in the line of a place that takes any number
	// of connections: thousands that move at once would keep requests for seconds.
	last bool
	kept *waiter // with last, the first of them
}

func (q *line) push(w *waiter) {
	var behind *waiter
	if q.last && !w.keeps {
		behind = q.kept
	}
	w.in, w.prev, w.next = q, q.tail, behind
	if behind != nil {
		w.prev, behind.prev = behind.prev, w
	} else {
		q.tail = w
	}
	if w.prev == nil {
		q.head = w
	} else {
		w.prev.next = w
	}
	q.n++
	if w.most == 0 {
		q.free++
	}
	if w.keeps {
		q.keeps++
		if q.kept == nil {
			q.kept = w
		}
	}
}

func (q *line) remove(w *waiter) {
	if w == q.kept {
		q.kept = w.next // with last; else nobody asks
	}
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.in, w.prev, w.next = nil, nil, nil
	q.n--
	if w.most == 0 {
		q.free--
	}
	if w.keeps {
		q.keeps--
	}
}

// join gets in line. A connection that came free meanwhile is returned at once;
// dialed tells that one is being made for everybody in line, this one included.
func (p *pool) join(w *waiter) (l *link, dialed bool, err error) {
	w.turn = make(chan turn, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return nil, false, p.ended()
	}
	if w.crowd = p.mu.shares.crowded(w.place, w.most); w.crowd && !w.patient {
		return nil, false, errCrowded
	}
	ok, dials := p.gate.pass()
	if !ok {
		return nil, false, errShut
	}
	if dials {
		p.ask()
	}
	if w.parked = w.crowd || p.mu.shares.full(w.place); w.parked {
		p.mu.shares.park(w)
		return nil, false, nil
	}
	p.mu.shares.charge(w.place)
	if l := p.newestFor(w); l != nil {
		l.place = w.place
		return l, false, nil
	}
	p.mu.line.push(w)
	p.want()
	return nil, p.mu.dialing-p.mu.window.stuck >= p.mu.line.n, nil
}

// ended says what became of a pool that was closed. Another one takes the place of a
// node's; the app's is closed when this node stops, and to look again would be to
// look for ever.
func (p *pool) ended() error {
	if p.node == "" {
		return errStopping
	}
	return errLook
}

// await waits for what join did not give.
func (p *pool) await(w *waiter, done <-chan struct{}, limit time.Duration) (*link, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case t := <-w.turn:
		return t.l, t.err
	case <-timer.C:
	case <-done:
	}
	return nil, p.leave(w)
}

// leave takes a waiter out of the line, whether it is still in it or has been
// served this moment, and says what it waited for in vain.
func (p *pool) leave(w *waiter) error {
	p.mu.Lock()
	why := errBusy
	switch {
	case w.parked && w.crowd:
		why = errCrowded
	case w.parked:
		why = errShare
	case p.mu.dialing > 0 || p.node != "":
		why = errDialing
	}
	waits := w.in != nil
	if waits {
		p.remove(w)
	}
	p.mu.Unlock()
	if waits {
		return why
	}
	t := <-w.turn // sent under mu with the removal, so it is there
	switch {
	case t.l == nil:
		return t.err
	case t.l.reused:
		p.put(t.l)
	default:
		p.pass(t.l)
	}
	return why
}

// look sends off those in line whose shard is served elsewhere by this table:
// there is nothing to wait for here. Who swaps the table calls it after that, and
// a waiter looks once more when it is in line: one of the two sees the other.
func (p *pool) look(t *Table) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waiters() {
		if w.in != nil && w.left(t, p.node) {
			p.remove(w)
			w.turn <- turn{err: errLook}
		}
	}
}

// left reports that the table does not send the waiter's shard to the node, or to
// the app if that is empty.
func (w *waiter) left(t *Table, node string) bool {
	if w.place == unshared {
		return false
	}
	if w.place >= t.Shards() {
		return true
	}
	r := t.Route(shardmap.Shard(w.place))
	if node == "" {
		return r.Kind != Local
	}
	return r.Kind != Remote || r.Node != node
}

// sendOff empties the line; without an error its people look again. With mu held.
func (p *pool) sendOff(err error) {
	if err == nil {
		err = errLook
	}
	for _, w := range p.waiters() { // those parked first: nobody takes their place
		p.remove(w)
		w.turn <- turn{err: err}
	}
}
