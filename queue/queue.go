package queue

import (
	"errors"
	"math"
	"sync"
	"time"
)

// What Enter and Wait return. The proxy makes answers of them.
var (
	// ErrFull reports that the room has no place or not enough bytes left.
	ErrFull = errors.New("queue: full")
	// ErrShardLimit reports that the shard has its share of the places or of the bytes.
	ErrShardLimit = errors.New("queue: shard has its share")
	// ErrTimeout reports that the request has waited as long as it may.
	ErrTimeout = errors.New("queue: waited too long")
	// ErrCanceled reports that the client has gone.
	ErrCanceled = errors.New("queue: client gone")
)

// Queue is the waiting room of one node. Make it with New.
type Queue struct {
	opt Options

	mu         sync.Mutex
	generation uint64           // of the newest table
	shards     map[uint32]usage // what each shard has
	idle       list             // waiting, have looked at the newest table
	pacer      pacer            // of those waiting for whom a newer table is there
	stats      Stats            // Due and Idle are not kept here
}

// New returns an empty room.
func New(o Options) *Queue {
	o = o.withDefaults()
	return &Queue{opt: o, shards: make(map[uint32]usage), pacer: pacer{limit: o.Batch, round: 1}}
}

// NoShard is the shard of requests of which none is known yet. It has no share: all
// of them may be of different ones.
const NoShard = math.MaxUint32

// usage is what the requests of one shard take of the room.
type usage struct {
	n     int
	bytes int64
}

// share is the part of the places, and of the bytes, that one shard may have: half,
// so that others find room when they come, and a quarter while others wait.
func (q *Queue) shardLimit(shared bool) usage {
	divisor := 2
	if shared {
		divisor = 4
	}
	return usage{max(q.opt.Requests/divisor, 1), max(q.opt.Bytes/int64(divisor), 1)}
}

// Enter takes a place for a request of so many bytes for shard, and starts its
// time. The caller must call Leave, once it has the ticket. The error is ErrFull
// or ErrShardLimit.
func (q *Queue) Enter(shard uint32, bytes int64) (*Ticket, error) {
	bytes = max(bytes, 0)
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stats.Waiting >= q.opt.Requests || bytes > 0 && bytes > q.opt.Bytes-q.stats.Bytes {
		q.stats.RefusedFull++
		return nil, ErrFull
	}
	used := q.shards[shard]
	limit := q.shardLimit(q.stats.Waiting > used.n)
	// A first request may be as large as the room allows.
	if shard != NoShard && (used.n >= limit.n || used.n > 0 && bytes > limit.bytes-used.bytes) {
		q.stats.RefusedShardLimit++
		return nil, ErrShardLimit
	}
	q.shards[shard] = usage{used.n + 1, used.bytes + bytes}
	q.stats.Waiting++
	q.stats.Bytes += bytes
	q.stats.Entered++
	return &Ticket{
		queue:    q,
		shard:    shard,
		bytes:    bytes,
		deadline: now.Add(q.opt.Wait),
		ready:    make(chan struct{}, 1),
	}, nil
}

// Wake tells the room that a table of this generation can be loaded. Whoever
// waits having seen only older ones is due. A generation that is not newer than
// the last is ignored, so calls may overtake each other.
func (q *Queue) Wake(generation uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if generation <= q.generation {
		return
	}
	q.generation = generation
	// A caller may load a table before Wake tells of it.
	q.wakeLocked(func(t *Ticket) bool { return t.seen < generation })
}

// Condition is what a request may wait for besides a new table: a place that takes no
// requests for the moment. Its methods are called under the Queue's lock.
type Condition interface {
	// Ready reports whether it is worth coming again. Whoever makes it so calls
	// WakeAll or WakeOne after that.
	Ready() bool
}

// WakeAll makes everybody due who waits at the gate.
func (q *Queue) WakeAll(cond Condition) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakeLocked(func(t *Ticket) bool { return t.cond == cond })
}

// WakeOne lets the one go who has waited at the gate for longest, and reports
// whether there was one. It is no part of the ramp: the caller paces it.
func (q *Queue) WakeOne(cond Condition) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for t := q.idle.head; t != nil; t = t.next {
		if t.cond == cond {
			q.idle.remove(t)
			q.stats.Released++
			t.ready <- struct{}{} // has room: see release
			return true
		}
	}
	return false
}

// Stats returns the figures of this moment.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	st := q.stats
	st.Due, st.Idle = q.pacer.due.n, q.idle.n
	return st
}
