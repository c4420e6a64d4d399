package keylimit

import (
	"sync"
	"time"
)

const (
	// maxBuckets is the maximum number of buckets that belong to one key each.
	maxBuckets = 1 << 17
	// sharedBuckets is the number of buckets that further keys share.
	sharedBuckets = 1 << 10
	// evictionsPerNewBucket is how many buckets are checked for each new one.
	evictionsPerNewBucket = 4
)

// Buckets contains the token buckets of all keys.
//
// A bucket is stored as the time at which it will be full again (generic cell rate algorithm). A bucket
// that is full now behaves like one that does not exist. Therefore only full buckets are evicted, and no
// key gets a full bucket early. If all maxBuckets are in use and none is full, further keys share
// sharedBuckets buckets: such a key may be limited more than necessary, and never less.
//
// All times are durations since a common start. NewBuckets creates Buckets.
type Buckets struct {
	max int // maxBuckets, except in tests

	// mu protects the following fields.
	mu     sync.Mutex
	fullAt map[bucketID]time.Duration
	shared [sharedBuckets]time.Duration
}

// bucketID identifies a bucket: a key has one for each kind of limit.
type bucketID struct {
	key  ID
	kind Kind
}

// NewBuckets returns Buckets in which the bucket of each key is full.
func NewBuckets() *Buckets {
	return &Buckets{max: maxBuckets, fullAt: make(map[bucketID]time.Duration)}
}

// TakeRequest takes the token of one request from the bucket of the key. If there is none, it returns
// false and the time after which there will be one.
func (b *Buckets) TakeRequest(key ID, limit *Limit, now time.Duration) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := bucketID{key, Requests}
	fullAt := max(b.fullAtLocked(id), now) + limit.Interval
	if wait = fullAt - now - time.Duration(limit.Burst)*limit.Interval; wait > 0 {
		return wait, false
	}
	b.setLocked(id, fullAt, now)
	return 0, true
}

// ReturnRequest returns the token of a request that was not executed.
func (b *Buckets) ReturnRequest(key ID, limit *Limit, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := bucketID{key, Requests}
	b.setLocked(id, b.fullAtLocked(id)-limit.Interval, now)
}

// MaySendBody reports whether the bucket for bytes of request bodies has tokens left. Otherwise it returns
// the time after which it will have some. The bucket has the tokens of one second. A body may take more
// tokens than there are, so that the key must wait until this debt is paid.
func (b *Buckets) MaySendBody(key ID, now time.Duration) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait = b.fullAtLocked(bucketID{key, BodyBytes}) - now - time.Second
	return wait, wait < 0
}

// TakeBody takes the tokens of a body with the given number of bytes.
func (b *Buckets) TakeBody(key ID, limit *Limit, size int64, now time.Duration) {
	if size <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	id := bucketID{key, BodyBytes}
	cost := time.Duration(float64(size) / float64(limit.BodyRate) * float64(time.Second))
	b.setLocked(id, max(b.fullAtLocked(id), now)+min(cost, maxDebt), now)
}

// maxDebt limits the time for which a single body makes a key wait.
const maxDebt = time.Hour

// fullAtLocked returns the time at which a bucket will be full. b.mu must be held.
func (b *Buckets) fullAtLocked(id bucketID) time.Duration {
	if fullAt, ok := b.fullAt[id]; ok {
		return fullAt
	}
	return b.shared[id.sharedIndex()] // long ago, unless keys have shared buckets recently
}

// setLocked sets the time at which a bucket will be full. b.mu must be held.
func (b *Buckets) setLocked(id bucketID, fullAt, now time.Duration) {
	if _, exists := b.fullAt[id]; !exists {
		b.evictLocked(now)
		if len(b.fullAt) >= b.max {
			b.shared[id.sharedIndex()] = fullAt
			return
		}
	}
	b.fullAt[id] = fullAt
}

// evictLocked removes full buckets among a few random ones, to make room for a new one. b.mu must be held.
func (b *Buckets) evictLocked(now time.Duration) {
	checked := 0
	for id, fullAt := range b.fullAt {
		if fullAt <= now {
			delete(b.fullAt, id)
		}
		if checked++; checked >= evictionsPerNewBucket {
			return
		}
	}
}

// sharedIndex returns the index of the shared bucket of a key.
func (id bucketID) sharedIndex() int {
	return int((id.key[0] ^ uint64(id.kind)) % sharedBuckets)
}

// Len returns the number of buckets that belong to one key each.
func (b *Buckets) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.fullAt)
}
