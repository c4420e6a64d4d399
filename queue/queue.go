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
	// ErrShare reports that the shard has its share of the places or of the bytes.
	ErrShare = errors.New("queue: shard has its share")
	// ErrTimeout reports that the request has waited as long as it may.
	ErrTimeout = errors.New("queue: waited too long")
	// ErrGone reports that the client has gone.
	ErrGone = errors.New("queue: client gone")
)

// Room is the waiting room of one node. Make it with New.
type Room struct {
	opt Options

	mu         sync.Mutex
	generation uint64             // of the newest table
	shards     map[uint32]holding // what each shard has
	idle       line               // waiting, have looked at the newest table
	ramp       ramp               // of those waiting for whom a newer table is there
	stats      Stats              // Due and Idle are not kept here
}

// New returns an empty room.
func New(o Options) *Room {
	o = o.withDefaults()
	return &Room{opt: o, shards: make(map[uint32]holding), ramp: ramp{window: o.Batch, round: 1}}
}

// NoShard is the shard of requests of which none is known yet. It has no share: all
// of them may be of different ones.
const NoShard = math.MaxUint32

// holding is what the requests of one shard take of the room.
type holding struct {
	n     int
	bytes int64
}

// share is the part of the places, and of the bytes, that one shard may have: half,
// so that others find room when they come, and a quarter while others wait.
func (r *Room) share(others bool) holding {
	part := 2
	if others {
		part = 4
	}
	return holding{max(r.opt.Requests/part, 1), max(r.opt.Bytes/int64(part), 1)}
}

// Enter takes a place for a request of so many bytes for shard, and starts its
// time. The caller must call Leave, once it has the ticket. The error is ErrFull
// or ErrShare.
func (r *Room) Enter(shard uint32, bytes int64) (*Ticket, error) {
	bytes = max(bytes, 0)
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stats.Waiting >= r.opt.Requests || bytes > 0 && bytes > r.opt.Bytes-r.stats.Bytes {
		r.stats.RefusedFull++
		return nil, ErrFull
	}
	own := r.shards[shard]
	most := r.share(r.stats.Waiting > own.n)
	// A first request may be as large as the room allows.
	if shard != NoShard && (own.n >= most.n || own.n > 0 && bytes > most.bytes-own.bytes) {
		r.stats.RefusedShare++
		return nil, ErrShare
	}
	r.shards[shard] = holding{own.n + 1, own.bytes + bytes}
	r.stats.Waiting++
	r.stats.Bytes += bytes
	r.stats.Entered++
	return &Ticket{
		room:     r,
		shard:    shard,
		bytes:    bytes,
		deadline: now.Add(r.opt.Wait),
		ready:    make(chan struct{}, 1),
	}, nil
}

// Wake tells the room that a table of this generation can be loaded. Whoever
// waits having seen only older ones is due. A generation that is not newer than
// the last is ignored, so calls may overtake each other.
func (r *Room) Wake(generation uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if generation <= r.generation {
		return
	}
	r.generation = generation
	// A caller may load a table before Wake tells of it.
	r.wake(func(t *Ticket) bool { return t.seen < generation })
}

// Gate is what a request may wait for besides a new table: a place that takes no
// requests for the moment. Its methods are called under the Room's lock.
type Gate interface {
	// Passable reports whether it is worth coming again. Whoever makes it so calls
	// Rouse or RouseOne after that.
	Passable() bool
}

// Rouse makes everybody due who waits at the gate.
func (r *Room) Rouse(gate Gate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake(func(t *Ticket) bool { return t.gate == gate })
}

// RouseOne lets the one go who has waited at the gate for longest, and reports
// whether there was one. It is no part of the ramp: the caller paces it.
func (r *Room) RouseOne(gate Gate) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := r.idle.head; t != nil; t = t.next {
		if t.gate == gate {
			r.idle.remove(t)
			r.stats.Awakened++
			t.ready <- struct{}{} // has room: see release
			return true
		}
	}
	return false
}

// Stats returns the figures of this moment.
func (r *Room) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.stats
	st.Due, st.Idle = r.ramp.due.n, r.idle.n
	return st
}
