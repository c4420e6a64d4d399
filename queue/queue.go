package queue

import (
	"errors"
	"math"
	"sync"
	"time"

	"shardway/internal/linkedlist"
)

// Errors of Enter and Wait. The proxy maps each of them to an HTTP response.
var (
	// ErrFull reports that no slot or not enough bytes are left.
	ErrFull = errors.New("queue: full")
	// ErrShardLimit reports that the shard already uses all slots or bytes that it may use.
	ErrShardLimit = errors.New("queue: shard limit reached")
	// ErrTimeout reports that the request reached its deadline.
	ErrTimeout = errors.New("queue: deadline exceeded")
	// ErrCanceled reports that the client disconnected or that Leave was called.
	ErrCanceled = errors.New("queue: canceled")
)

// Queue is the request queue of one node. Create it with New.
type Queue struct {
	options Options

	// mu protects the following fields.
	mu          sync.Mutex
	generation  uint64                   // generation of the newest routing table
	shards      map[uint32]usage         // usage by shard
	idleTickets linkedlist.List[*Ticket] // tickets that wait for the next table or a condition
	pacer       pacer                    // releases the tickets that were woken
	stats       Stats                    // except Due and Idle, which Stats fills in
}

// New returns an empty queue.
func New(options Options) *Queue {
	options = options.withDefaults()
	return &Queue{options: options, shards: make(map[uint32]usage), pacer: pacer{limit: options.Batch, round: 1}}
}

// NoShard stands for requests whose shard is not known yet. The limit per shard does not apply
// to it, because these requests may belong to different shards.
const NoShard = math.MaxUint32

// usage is the number and total size of the queued requests of one shard.
type usage struct {
	requests int
	bytes    int64
}

// shardLimit returns the slots and bytes that one shard may use: a quarter of the total while
// requests for other shards are queued (shared), and half of it otherwise, which leaves room for
// requests for other shards that arrive later.
func (q *Queue) shardLimit(shared bool) usage {
	divisor := 2
	if shared {
		divisor = 4
	}
	return usage{max(q.options.Requests/divisor, 1), max(q.options.Bytes/int64(divisor), 1)}
}

// exceedsShardLimitLocked reports whether a shard with the given usage may not add another request of
// the given size. The first request of a shard may use all remaining bytes. q.mu must be held.
func (q *Queue) exceedsShardLimitLocked(used usage, bytes int64) bool {
	otherShardsQueued := q.stats.Waiting > used.requests
	limit := q.shardLimit(otherShardsQueued)
	if used.requests >= limit.requests {
		return true
	}
	return used.requests > 0 && bytes > limit.bytes-used.bytes
}

// Enter adds a request for shard with the given size in bytes to the queue, and starts its
// deadline. It returns ErrFull or ErrShardLimit if the request must be refused. The caller must
// call Leave on the ticket.
func (q *Queue) Enter(shard uint32, bytes int64) (*Ticket, error) {
	bytes = max(bytes, 0)
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	noSlotLeft := q.stats.Waiting >= q.options.Requests
	exceedsBytes := bytes > 0 && bytes > q.options.Bytes-q.stats.Bytes
	if noSlotLeft || exceedsBytes {
		q.stats.RefusedFull++
		return nil, ErrFull
	}
	used := q.shards[shard]
	if shard != NoShard && q.exceedsShardLimitLocked(used, bytes) {
		q.stats.RefusedShardLimit++
		return nil, ErrShardLimit
	}
	q.shards[shard] = usage{used.requests + 1, used.bytes + bytes}
	q.stats.Waiting++
	q.stats.Bytes += bytes
	q.stats.Entered++
	return &Ticket{
		queue:    q,
		shard:    shard,
		bytes:    bytes,
		deadline: now.Add(q.options.Wait),
		ready:    make(chan struct{}, 1),
	}, nil
}

// Wake announces that a routing table of this generation can be loaded. All tickets that wait
// with an older generation become due. Wake ignores a generation that is not newer than the last
// one, so concurrent calls may arrive in any order.
func (q *Queue) Wake(generation uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if generation <= q.generation {
		return
	}
	q.generation = generation
	// A caller may have loaded a table before Wake announced it, so t.seenGeneration can be newer.
	q.wakeLocked(func(t *Ticket) bool { return t.seenGeneration < generation })
}

// Condition is an event that a ticket can wait for in addition to a new routing table: an
// upstream that refuses requests at the moment becomes available again. Conditions are compared
// with ==. The methods are called with the lock of the Queue held.
type Condition interface {
	// Ready reports whether the request should be retried now. After a change from false to
	// true the implementation must call WakeAll or WakeOne.
	Ready() bool
}

// WakeAll makes all tickets due that wait for cond.
func (q *Queue) WakeAll(cond Condition) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakeLocked(func(t *Ticket) bool { return t.cond == cond })
}

// WakeOne releases the ticket that has waited for cond the longest, and reports whether there was
// one. The release bypasses the pacer: the caller must limit the rate.
func (q *Queue) WakeOne(cond Condition) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for t := range q.idleTickets.All() {
		if t.cond == cond {
			t.element.Remove()
			q.stats.Released++
			t.ready <- struct{}{} // never blocks: the channel of a ticket in a list is empty
			return true
		}
	}
	return false
}

// Stats returns a snapshot of the gauges and counters.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	st := q.stats
	st.Due = q.pacer.dueTickets.Len() // woken, but not released yet
	st.Idle = q.idleTickets.Len()     // not woken yet
	return st
}
