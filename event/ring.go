package event

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// kept is how many events a ring keeps unless told otherwise: some hours of a restless
// cluster, and a few hundred kilobytes.
const kept = 1024

// Why a reader gets a Lost event.
const (
	// LostRestarted: what the reader has seen last was told by another process: the node
	// has started again since, or another node answers.
	LostRestarted = "restarted"
	// LostOverrun: the ring has moved on past what the reader has seen.
	LostOverrun = "overrun"
)

// Options is what a Ring is made of.
type Options struct {
	// Node tells the events.
	Node string
	// Run is a number that no other process has, drawn at random.
	Run uint64
	// Kept is how many events are kept at least; zero: 1024.
	Kept int
	// Stamp says where the node is. It is called for each event, and waits for nothing;
	// nil: nowhere.
	Stamp func() Stamp
}

// Stamp is where a node is when something happens.
type Stamp struct{ Boot, Epoch, Term uint64 }

// Ring has the last events of a process. Any goroutine may use it. A nil Ring takes
// events, and has none.
type Ring struct {
	o  Options
	mu struct {
		sync.Mutex
		events  []Event       // number n is at (n-1) modulo Kept
		last    uint64        // number of the newest; 0: none
		changed chan struct{} // closed with the next event
	}
}

// NewRing returns an empty ring.
func NewRing(o Options) *Ring {
	if o.Kept <= 0 {
		o.Kept = kept
	}
	if o.Stamp == nil {
		o.Stamp = func() Stamp { return Stamp{} }
	}
	r := &Ring{o: o}
	r.mu.changed = make(chan struct{})
	return r
}

// Node is who tells the events.
func (r *Ring) Node() string { return r.o.Node }

// Add keeps an event as the newest. It fills in ID, Seq, Time, At and Boot, and Epoch
// and Term where they are zero. What the event points to must not change afterwards.
func (r *Ring) Add(e Event) {
	if r == nil {
		return
	}
	now, at := time.Now().UTC(), r.o.Stamp()
	e.Time, e.At, e.Boot = now.Truncate(time.Microsecond), r.o.Node, at.Boot
	if e.Epoch == 0 {
		e.Epoch = at.Epoch
	}
	if e.Term == 0 {
		e.Term = at.Term
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.last++
	e.Seq, e.ID = r.mu.last, r.id(r.mu.last)
	if len(r.mu.events) < r.o.Kept {
		r.mu.events = append(r.mu.events, e)
	} else {
		r.mu.events[(e.Seq-1)%uint64(r.o.Kept)] = e
	}
	close(r.mu.changed)
	r.mu.changed = make(chan struct{})
}

// id names an event by its number. It has no character that a URL would escape.
func (r *Ring) id(number uint64) string { return fmt.Sprintf("%016x-%d", r.o.Run, number) }

// Cursor is how far a reader has come. It belongs to one goroutine.
type Cursor struct {
	r    *Ring
	seen uint64
	lost string // why there is a gap that was not told yet; empty: there is none
}

// Read returns a cursor behind the event that an ID names, or, without one, before the
// oldest that is kept. An error names an ID that no program wrote.
func (r *Ring) Read(after string) (*Cursor, error) {
	c := &Cursor{r: r}
	if after == "" {
		c.seen, _ = r.bounds()
		return c, nil
	}
	run, number, ok := parse(after)
	if !ok {
		return nil, fmt.Errorf("%q is not the id of an event: give one as it came, or none", after)
	}
	oldest, last := r.bounds()
	if run != r.o.Run || number > last {
		c.seen, c.lost = oldest, LostRestarted
		return c, nil
	}
	c.seen = number
	return c, nil
}

// parse reads an ID.
func parse(id string) (run, number uint64, ok bool) {
	head, tail, found := strings.Cut(id, "-")
	run, wrong := strconv.ParseUint(head, 16, 64)
	number, bad := strconv.ParseUint(tail, 10, 64)
	return run, number, found && wrong == nil && bad == nil && len(head) == 16
}

// bounds returns the numbers of the event before the oldest that is kept, and of the
// newest.
func (r *Ring) bounds() (before, last uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.last - uint64(len(r.mu.events)), r.mu.last
}

// Next returns the events that the reader has not seen, the oldest first, at most limit
// of them and one; more is closed once there are others. If some are not there any more,
// a Lost one stands for them.
func (c *Cursor) Next(limit int) (events []Event, more <-chan struct{}) {
	r := c.r
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.mu.last - uint64(len(r.mu.events))
	missed := uint64(0)
	if c.seen < before {
		c.lost, missed = LostOverrun, before-c.seen
		c.seen = before
	}
	if c.lost != "" {
		events = append(events, Event{
			ID: r.id(c.seen), Seq: c.seen, Time: time.Now().UTC().Truncate(time.Microsecond), Kind: Lost, At: r.o.Node, Reason: c.lost, Missed: missed,
		})
		c.lost = ""
	}
	for range limit {
		if c.seen == r.mu.last {
			break
		}
		events = append(events, r.mu.events[c.seen%uint64(r.o.Kept)])
		c.seen++
	}
	if c.seen < r.mu.last {
		return events, done()
	}
	return events, r.mu.changed
}

// done returns a channel that is closed.
func done() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// After names the last event that the reader has seen.
func (c *Cursor) After() string { return c.r.id(c.seen) }
