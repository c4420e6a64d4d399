package mux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Window is how many bytes of a lane may be on their way to their reader, in either
	// direction. It is part of the protocol. Half of it at least is there for what comes
	// after a message that has been read: what is small never waits for credit.
	Window = 32 << 10
	// MaxLanes is how many lanes a node may have opened to another that have not been closed
	// by both, by all trunks that it has dialed together: 8 MiB that nobody has read, of Window
	// each. It is part of the protocol.
	MaxLanes = 256
	// MaxLegs is the same of lanes that carry kept sockets, and have trunks of their own: as many
	// as there may be streams. What is not read at once is what clients and apps do not take, and
	// all together have less for that than Window each: see Sharing.
	MaxLegs = 16384
	// lastNumber is that of the last lane that a trunk can have.
	lastNumber = 1<<32 - 1
	// readBuffer is what one read takes at most, and firstBuffer what the first does: a trunk
	// on which little is said holds little.
	readBuffer  = 64 << 10
	firstBuffer = 512
	// mostBeside is how much TLS may have to say for itself that waits to be written.
	mostBeside = 4 << 10
	// bulkQueue is how much may wait to be written when a lane adds a part of what is too
	// long for one frame, and mostQueue when it adds all it has: the short waits behind
	// little, whatever the long ones have.
	bulkQueue = 64 << 10
	mostQueue = 256 << 10
	// keptQueue is the size of a queue that is kept whatever is written. A larger one is
	// kept for as long as a part of it is needed once in lessOften writes, and there are lanes.
	keptQueue = 32 << 10
	lessOften = 256
	// pingEvery is how often Ping gives the path something to carry.
	pingEvery = 200 * time.Millisecond
)

// What Open may end with.
var (
	// ErrRetired reports a trunk that takes no more lanes.
	ErrRetired = errors.New("trunk: takes no more lanes")
	// ErrNotTaken is what a lane breaks with of which the other end has read nothing.
	ErrNotTaken = errors.New("trunk: the other end takes no more lanes")
	// ErrFull reports that the budget is spent.
	ErrFull = errors.New("trunk: has as many lanes as it may")
)

// Trunk is one end of it. Make it with Dialed or Accepted; Run has it work.
type Trunk struct {
	conn   net.Conn
	budget *Budget // of the lanes that are opened
	sock   *socket // below conn; used by who has the turn
	owing  load    // of which rest is left over, for the socket took no more; theirs, too
	rest   []byte
	give   func(*Lane) bool // nil: this end opens the lanes
	// turn has one while there is something to write and the writer does not know yet.
	turn   chan struct{}
	over   chan struct{} // closed once it has failed
	parted chan struct{} // closed once Last has been written
	born   time.Time
	heard  atomic.Int64 // when something came last, since it was born; zero: nothing has
	done   atomic.Bool  // it takes no more lanes, or has failed

	mu       sync.Mutex
	lanes    map[uint32]*Lane // that the other end may still speak of, or this one
	live     int              // of them, closed by neither
	last     uint32           // the lane opened last
	begun    uint32           // that of which the writer has taken up that it is opened
	spoken   uint32           // the highest of which the other end, that is given lanes, has spoken
	urgent   []byte           // to be written, before out
	out      []byte           // to be written
	spare    []byte           // for what comes while out is being written
	loads    uint64           // that the writer has taken up
	little   int              // writes in a row that needed little of the queue's room
	credits  []*Lane          // whose credit is to be written, each once
	parting  []*Lane          // whose close is
	refusals []uint32         // numbers of lanes, to be written that they are not taken
	crowd    []*Lane          // who waits for room, each once
	asks     bool             // a ping waits to be written
	answers  bool             // the answer to one does
	word     chan struct{}    // closed with the next answer; nil: nobody waits for one
	told     bool             // the writer has its turn, or is at it
	pinged   time.Time        // when Ping has sent one
	retired  bool             // no more lanes are opened
	leaves   bool             // nor is there one: it ends with what waits to be written
	final    bool             // for the other end has said which was the last
	parts    bool             // no more are taken
	said     bool             // the writer has taken up that
	tired    bool             // it takes none because nothing came by it
	err      error            // why it has failed; nil: it works
	idle     *time.Timer      // of who is given lanes: when to see whether anything comes
}

// Dialed returns the end that opens lanes, of a budget.
func Dialed(conn net.Conn, b *Budget) *Trunk { return newTrunk(conn, b, nil) }

// Accepted returns the end whose lanes the other one opens. Each is given to give, by the
// goroutine that reads: it must not wait. If the budget is spent, or it returns false, that
// lane is refused. Who is given a lane closes it when done, or it counts.
func Accepted(conn net.Conn, b *Budget, give func(*Lane) bool) *Trunk { return newTrunk(conn, b, give) }

func newTrunk(conn net.Conn, b *Budget, give func(*Lane) bool) *Trunk {
	return &Trunk{
		conn: conn, budget: b, sock: socketOf(conn), give: give, lanes: make(map[uint32]*Lane),
		turn: make(chan struct{}, 1), over: make(chan struct{}), parted: make(chan struct{}), born: time.Now(),
	}
}

// Run carries lanes until the connection breaks or Fail ends it, closes the connection and
// returns why.
func (t *Trunk) Run() error {
	var writer sync.WaitGroup
	writer.Go(t.write)
	defer t.ends()()
	err := t.read()
	t.Fail(err)
	writer.Wait()
	return t.failed()
}

// Open opens a lane. It does not wait for the other end.
func (t *Trunk) Open() (*Lane, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.err != nil:
		return nil, t.err
	case t.retired || t.last == lastNumber:
		return nil, ErrRetired
	case !t.budget.lend(1):
		return nil, ErrFull
	}
	if t.last++; t.last == lastNumber {
		t.done.Store(true)
	}
	l := t.begin(t.last)
	t.add(kindOpen, l.id, nil)
	return l, nil
}

// begin makes a lane that has been lent. With mu held.
func (t *Trunk) begin(id uint32) *Lane {
	l := newLane(t, id, t.budget.window())
	l.counts = t.budget
	t.lanes[id] = l
	t.live++
	return l
}

// Works reports whether Open may give a lane.
func (t *Trunk) Works() bool { return !t.done.Load() }

// Last takes no more lanes, and tells the other end which was the last: what it has sent
// on a later one nobody has read, so it may go elsewhere. It returns once that has been
// written, or after the time.
func (t *Trunk) Last(within time.Duration) {
	t.mu.Lock()
	t.part(t.last)
	t.mu.Unlock()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-t.parted:
	case <-t.over:
	case <-timer.C:
	}
}

// part tells which lane was the last, once. With mu held.
func (t *Trunk) part(last uint32) {
	if !t.parts && t.err == nil {
		t.parts = true
		t.add(kindLast, last, nil)
	}
}

// lastTaken breaks the lanes that the other end has not taken.
func (t *Trunk) lastTaken(last uint32) error {
	var untaken []*Lane
	t.mu.Lock()
	if t.final || last > t.last || last < t.spoken {
		defer t.mu.Unlock()
		return fmt.Errorf("%w: last word of lane %d; said before: %v, opened up to %d, answered up to %d", errFrame, last, t.final, t.last, t.spoken)
	}
	t.final, t.retired = true, true
	t.done.Store(true)
	for id, l := range t.lanes {
		if id > last {
			untaken = append(untaken, l)
			t.nobodys(l)
			t.leave(l)
			t.settle(l)
		}
	}
	t.mu.Unlock()
	for _, l := range untaken {
		l.fail(ErrNotTaken)
	}
	t.Retire()
	return nil
}

// Retire lets no more lanes be opened, and ends the trunk once each has been closed by one
// end or the other.
func (t *Trunk) Retire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retired = true
	t.done.Store(true)
	if t.live == 0 {
		t.goes()
	}
}

// lastWords is how long a trunk that ends in peace has for what it has said that it would say.
const lastWords = time.Second

// goes ends a trunk that is retired and has no lane any more, in peace: behind what waits to be
// written, which was taken for written, and the words by which its lanes have ended. With mu
// held.
func (t *Trunk) goes() {
	if !t.told {
		go t.Fail(ErrRetired)
		return
	}
	t.leaves = true // who has the turn does it
	time.AfterFunc(lastWords, func() { t.Fail(ErrRetired) })
}

// Fail ends the trunk: every lane breaks with err, at once. Of several the first counts. Of
// what had not been written nobody has read anything.
func (t *Trunk) Fail(err error) {
	t.mu.Lock()
	if t.err != nil {
		t.mu.Unlock()
		return
	}
	t.err = err
	t.done.Store(true)
	lanes, crowd := t.lanes, t.crowd
	var unsent []*Lane
	t.lanes, t.crowd, t.credits, t.parting, t.refusals, t.urgent, t.out, t.spare = nil, nil, nil, nil, nil, nil, nil, nil
	for id, l := range lanes {
		if l.counts != nil {
			l.counts = l.counts.forsake()
		}
		t.settle(l)
		if t.give == nil && (l.begins == 0 || l.begins > t.loads) {
			delete(lanes, id)
			unsent = append(unsent, l)
		}
	}
	t.mu.Unlock()
	close(t.over)
	for _, l := range lanes {
		l.fail(err)
	}
	for _, l := range unsent {
		l.fail(fmt.Errorf("%w: %w", ErrNotTaken, err))
	}
	wakeAll(crowd)
	// The socket goes first: TLS would take its time to say goodbye on a dead path.
	_ = below(t.conn).Close() // its end is what is wanted
	_ = t.conn.Close()        // lets go of what it holds
}

func (t *Trunk) failed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Ping gives the path something to carry, and the other end's kernel something to
// acknowledge, unless that was done just now. Call it while something is outstanding.
func (t *Trunk) Ping() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.err == nil && now.Sub(t.pinged) >= pingEvery {
		t.pinged = now
		t.add(kindPing, 0, nil)
	}
}

// Quiet returns for how long nothing has come; false: nothing ever has.
func (t *Trunk) Quiet() (time.Duration, bool) {
	at := time.Duration(t.heard.Load())
	return time.Since(t.born) - at, at != 0
}

// fresh reports whether something has come just now.
func (t *Trunk) fresh() bool {
	quiet, heard := t.Quiet()
	return heard && quiet < freshFor
}

// roomy reports whether what is said now goes out soon, as far as this end is concerned.
func (t *Trunk) roomy() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.out) < bulkQueue
}

// Ask asks the other end for a word, and waits until that has come: then there was a path in
// both directions, and a process that reads.
func (t *Trunk) Ask(ctx context.Context) error {
	t.mu.Lock()
	if t.err != nil {
		t.mu.Unlock()
		return t.err
	}
	if t.word == nil {
		t.word = make(chan struct{})
	}
	word := t.word
	t.add(kindPing, 0, nil)
	t.mu.Unlock()
	select {
	case <-word:
		return nil
	case <-t.over:
		return t.failed()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// answered tells who waits for a word that it has come.
func (t *Trunk) answered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.word != nil {
		close(t.word)
		t.word = nil
	}
}

// leave counts a lane as closed by one end. With mu held.
func (t *Trunk) leave(l *Lane) {
	if l.left {
		return
	}
	l.left = true
	if t.live--; t.live > 0 {
		return
	}
	t.trim()
	switch {
	case t.retired:
		t.goes()
	case t.tired:
		t.idle.Reset(leaveWithin)
	}
}

// depart notes that the other end has closed a lane.
func (t *Trunk) depart(l *Lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.away = true
	t.leave(l)
	t.settle(l)
}

// drop closes a lane at this end, and tells the other one how.
func (t *Trunk) drop(l *Lane, k kind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.shut = true
	if t.lanes[l.id] == l { // a trunk that has failed has none
		t.add(k, l.id, nil)
		t.parting = append(t.parting, l)
	}
	t.leave(l)
	t.settle(l)
}

// settle gives back what was lent for a lane that nobody speaks of any more: both ends have
// closed it, and the writer has taken up that this one has. What waits for an end that reads
// nothing is bounded by that. Of a trunk that has failed, this end alone matters. With mu held.
func (t *Trunk) settle(l *Lane) {
	over := t.err != nil || l.away && l.said
	if !l.shut || !over {
		return
	}
	delete(t.lanes, l.id)
	if l.counts != nil {
		l.counts.back(1)
		l.counts = nil
	}
}
