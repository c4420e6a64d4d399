package event

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// defaultCapacity is the capacity of a ring if Options.Capacity is 0. It covers some hours in a cluster with
// many events, and takes a few hundred kilobytes.
const defaultCapacity = 1024

// defaultShardMemory is the limit of the memory of all lists of shards in a ring if Options.ShardMemory is 0. It covers
// the moves of about 500,000 shards.
const defaultShardMemory = 1 << 20

// shardListOverhead is the memory of a MovedShards without its shards, roughly.
const shardListOverhead = 96

// runIDDigits is the number of hexadecimal digits of Options.RunID in an event ID.
const runIDDigits = 16

// Reasons of a Lost event.
const (
	// LostRestarted means that the last id of the reader comes from another process: the node
	// has restarted, or the reader is connected to another node.
	LostRestarted = "restarted"
	// LostOverrun means that the ring has dropped events that the reader had not received.
	LostOverrun = "overrun"
)

// Options configures a Ring.
type Options struct {
	// Node is the id of the node that adds the events.
	Node string
	// RunID is a random number that identifies the process.
	RunID uint64
	// Capacity is the number of events that the ring keeps. 0 means 1024.
	Capacity int
	// ShardMemory is the maximum memory in bytes of all lists of shards (Event.Shards) in the ring. Beyond it, the ring
	// drops the oldest lists, and keeps their events. 0 means 1 MiB.
	ShardMemory int
	// Stamp returns the current Stamp of the node. It is called for each event and must not block. If it is nil,
	// all events have a zero Stamp.
	Stamp func() Stamp
}

// Stamp is the state of a node at the time of an event: its boot number (incarnation), the epoch of the map in
// force, and the Raft term.
type Stamp struct{ Boot, Epoch, Term uint64 }

// Ring contains the last events of a process. All methods are safe for concurrent use. A nil Ring ignores
// added events.
type Ring struct {
	options Options
	mu      struct {
		sync.Mutex
		events     []Event       // event number n is at index (n-1) modulo Capacity
		lastNumber uint64        // number of the newest event; 0 if there is none
		changed    chan struct{} // closed and replaced by each Add
		// shardMemory is the memory of all lists of shards. No event before listsFrom has one.
		shardMemory int
		listsFrom   uint64
	}
}

// NewRing returns an empty ring.
func NewRing(options Options) *Ring {
	if options.Capacity <= 0 {
		options.Capacity = defaultCapacity
	}
	if options.ShardMemory <= 0 {
		options.ShardMemory = defaultShardMemory
	}
	if options.Stamp == nil {
		options.Stamp = func() Stamp { return Stamp{} }
	}
	r := &Ring{options: options}
	r.mu.changed = make(chan struct{})
	return r
}

// Node returns the id of the node that adds the events.
func (r *Ring) Node() string { return r.options.Node }

// Add appends added as the newest event. It sets ID, Seq, Time, At and Boot, and also Epoch and Term if they are
// zero. The caller must not modify values that added points to afterwards.
func (r *Ring) Add(added Event) {
	if r == nil {
		return
	}
	stamp := r.options.Stamp()
	added.Time, added.At, added.Boot = now(), r.options.Node, stamp.Boot
	added.Epoch = cmp.Or(added.Epoch, stamp.Epoch)
	added.Term = cmp.Or(added.Term, stamp.Term)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.lastNumber++
	added.Seq, added.ID = r.mu.lastNumber, r.id(r.mu.lastNumber)
	if len(r.mu.events) < r.options.Capacity {
		r.mu.events = append(r.mu.events, added)
	} else {
		oldest := r.atLocked(added.Seq)
		r.mu.shardMemory -= shardMemory(oldest.Shards)
		*oldest = added
	}
	r.mu.shardMemory += shardMemory(added.Shards)
	r.limitShardMemoryLocked()
	close(r.mu.changed)
	r.mu.changed = make(chan struct{})
}

// atLocked returns the place of the event with a number, which must be in the ring, or must replace the oldest event.
func (r *Ring) atLocked(number uint64) *Event {
	return &r.mu.events[(number-1)%uint64(r.options.Capacity)]
}

// limitShardMemoryLocked drops the oldest lists of shards until the others fit into Options.ShardMemory.
func (r *Ring) limitShardMemoryLocked() {
	beforeOldest := r.mu.lastNumber - uint64(len(r.mu.events))
	r.mu.listsFrom = max(r.mu.listsFrom, beforeOldest+1)
	for ; r.mu.shardMemory > r.options.ShardMemory; r.mu.listsFrom++ {
		if e := r.atLocked(r.mu.listsFrom); e.Shards != nil {
			r.mu.shardMemory -= shardMemory(e.Shards)
			e.Shards, e.ShardsOmitted = nil, true
		}
	}
}

// shardMemory returns the memory of lists of shards in bytes, roughly.
func shardMemory(lists []MovedShards) (bytes int) {
	for i := range lists {
		bytes += shardListOverhead + 2*cap(lists[i].Shards) + 2*cap(lists[i].ServiceShards)
	}
	return bytes
}

// now returns the current time in the precision of an event.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// id returns the id of the event with the given number. It contains no characters that a URL must escape.
func (r *Ring) id(number uint64) string {
	return fmt.Sprintf("%0*x-%d", runIDDigits, r.options.RunID, number)
}

// Newest returns the number of the newest event, or zero if there is none.
func (r *Ring) Newest() uint64 {
	_, newest := r.bounds()
	return newest
}

// Cursor is the position of one reader in a ring. It must be used by one goroutine at a time.
type Cursor struct {
	ring     *Ring
	lastSeen uint64 // number of the last event that the reader has received
	lost     string // reason of a gap that the reader has not been informed of; empty if there is none

	includesShards bool
}

// IncludeShards makes Next return the lists of shards of shards-moved events (Event.Shards). Without it, these events
// contain only numbers of shards.
func (c *Cursor) IncludeShards() { c.includesShards = true }

// Read returns a cursor that starts after the event with the id after. If after is empty, the cursor starts
// with the oldest event of the ring. Read returns an error if after is not a valid event ID.
func (r *Ring) Read(after string) (*Cursor, error) {
	c := &Cursor{ring: r}
	if after == "" {
		c.lastSeen, _ = r.bounds()
		return c, nil
	}
	runID, number, ok := parseID(after)
	if !ok {
		return nil, fmt.Errorf("%q is not an event id: pass an id exactly as received, or none", after)
	}
	beforeOldest, newest := r.bounds()
	if runID != r.options.RunID || number > newest {
		c.lastSeen, c.lost = beforeOldest, LostRestarted
		return c, nil
	}
	c.lastSeen = number
	return c, nil
}

// parseID splits an id into its two numbers. ok is false if id is not a valid event ID.
func parseID(id string) (runID, number uint64, ok bool) {
	runDigits, numberDigits, found := strings.Cut(id, "-")
	runID, runErr := strconv.ParseUint(runDigits, 16, 64)
	number, numberErr := strconv.ParseUint(numberDigits, 10, 64)
	return runID, number, found && runErr == nil && numberErr == nil && len(runDigits) == runIDDigits
}

// bounds returns the number of the event before the oldest event of the ring, and the number of the newest
// one.
func (r *Ring) bounds() (beforeOldest, newest uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.lastNumber - uint64(len(r.mu.events)), r.mu.lastNumber
}

// Next returns up to limit events that the reader has not received yet, oldest first. If events were lost, a
// Lost event precedes them, in addition to limit. The channel moreAvailable is closed when further events are
// available.
func (c *Cursor) Next(limit int) (events []Event, moreAvailable <-chan struct{}) {
	r := c.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	beforeOldest := r.mu.lastNumber - uint64(len(r.mu.events))
	missed := uint64(0)
	if c.lastSeen < beforeOldest {
		c.lost, missed = LostOverrun, beforeOldest-c.lastSeen
		c.lastSeen = beforeOldest
	}
	if c.lost != "" {
		events = append(events, Event{
			ID: r.id(c.lastSeen), Seq: c.lastSeen, Time: now(), Kind: Lost, At: r.options.Node, Reason: c.lost, Missed: missed,
		})
		c.lost = ""
	}
	for range limit {
		if c.lastSeen == r.mu.lastNumber {
			break
		}
		c.lastSeen++
		next := *r.atLocked(c.lastSeen)
		if !c.includesShards {
			next.Shards, next.ShardsOmitted = nil, false
		}
		events = append(events, next)
	}
	if c.lastSeen < r.mu.lastNumber {
		return events, closedChan()
	}
	return events, r.mu.changed
}

// closedChan returns a closed channel.
func closedChan() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// After returns the id of the last event that the reader has received.
func (c *Cursor) After() string { return c.ring.id(c.lastSeen) }
