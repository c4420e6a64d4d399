package backoff

import (
	"sync"
	"sync/atomic"
	"time"
)

// ByShard holds back requests for shards whose owner has refused requests. The owner refuses a
// request when all connections to its app, or all connections that the shard may use, are in use,
// or when the shard has the maximum number of requests in progress.
//
// Further requests for such a shard wait in the queue. One of them is sent as a probe after 10 ms.
// After each refusal the pause doubles, up to 200 ms. Each request that the app accepts or finishes
// releases one more. The owner then receives about as many requests as it can accept, and thousands
// of waiting requests do not keep two nodes busy with refusals.
type ByShard struct {
	queues     Queues
	queueCount atomic.Int32 // length of queuesByShard; almost always zero, so that Allow costs one atomic load

	// mu protects queuesByShard, which has no entry for a shard without waiting requests.
	mu            sync.Mutex
	queuesByShard map[int]*ShardQueue
}

// ShardQueue is the set of requests that wait for one shard. It is removed from queuesByShard when
// no request waits any more.
type ShardQueue struct {
	backoff *ByShard
	shard   int
	removed atomic.Bool // removed from queuesByShard; written with backoff.mu held
	// ownerSheds is set if the owner rejects requests with a final error unless they have already waited for the shard.
	ownerSheds atomic.Bool

	// backoff.mu protects the following fields.
	waitingRequests int           // number of waiting requests
	permittedProbes int           // number of requests that may be sent now
	pause           time.Duration // the last pause; the next one is twice as long
	timer           *time.Timer   // calls allowProbe
}

var _ Condition = (*ShardQueue)(nil)

// Allow returns nil if a request for the shard may be sent now. Otherwise it returns the ShardQueue that the request
// must join. hasWaited is set if the request has already waited for the shard; other requests are never sent while the
// owner sheds.
func (b *ByShard) Allow(shard int, hasWaited bool) *ShardQueue {
	if b.queueCount.Load() == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queuesByShard[shard]
	if q == nil {
		return nil
	}
	wouldBeShed := !hasWaited && q.ownerSheds.Load()
	if q.permittedProbes == 0 || wouldBeShed {
		return q
	}
	q.permittedProbes--
	return nil
}

// OnRefused records that the owner has refused a request, and lengthens the pause before the next
// probe. It returns the ShardQueue that the request must join. ownerSheds is the new value of
// ShardQueue.OwnerSheds.
func (b *ByShard) OnRefused(shard int, ownerSheds bool) *ShardQueue {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queuesByShard[shard]
	if q == nil {
		q = b.addQueueLocked(shard)
	}
	q.ownerSheds.Store(ownerSheds)
	q.permittedProbes = 0
	q.pause = nextPause(q.pause)
	q.timer.Reset(q.pause)
	return q
}

// addQueueLocked adds the ShardQueue of a shard. The caller must hold b.mu.
func (b *ByShard) addQueueLocked(shard int) *ShardQueue {
	if b.queuesByShard == nil {
		b.queuesByShard = make(map[int]*ShardQueue)
	}
	q := &ShardQueue{backoff: b, shard: shard}
	q.timer = time.AfterFunc(MinPause, q.allowProbe)
	b.queuesByShard[shard] = q
	b.queueCount.Add(1)
	return q
}

// removeQueueLocked removes a ShardQueue in which no request waits. The caller must hold b.mu.
func (b *ByShard) removeQueueLocked(q *ShardQueue) {
	q.removed.Store(true)
	q.timer.Stop()
	delete(b.queuesByShard, q.shard)
	b.queueCount.Add(-1)
}

// OnAccepted records that the owner's app has accepted or finished a request for the shard.
func (b *ByShard) OnAccepted(shard int) {
	if b.queueCount.Load() == 0 {
		return
	}
	b.mu.Lock()
	q := b.queuesByShard[shard]
	if q != nil {
		q.pause = 0
	}
	b.mu.Unlock()
	if q != nil {
		q.allowProbe()
	}
}

// allowProbe allows one more request to be sent and wakes the one that has waited longest. If no request is waiting, it
// removes the queue.
func (q *ShardQueue) allowProbe() {
	b := q.backoff
	b.mu.Lock()
	if q.removed.Load() {
		b.mu.Unlock()
		return
	}
	if q.waitingRequests == 0 {
		b.removeQueueLocked(q)
		b.mu.Unlock()
		return
	}
	q.permittedProbes++
	q.timer.Reset(MaxPause) // allow another probe if this one never reports a result
	b.mu.Unlock()
	b.queues.WakeOne(q)
}

// Ready reports whether a waiting request should be retried now. It is always true once the queue has been removed,
// because nothing holds the request back any more. It implements queue.Condition.
func (q *ShardQueue) Ready() bool {
	if q.removed.Load() {
		return true
	}
	q.backoff.mu.Lock()
	defer q.backoff.mu.Unlock()
	return q.permittedProbes > 0
}

// AddWaiting adds delta, which is 1 or -1, to the number of waiting requests.
func (q *ShardQueue) AddWaiting(delta int) {
	q.backoff.mu.Lock()
	defer q.backoff.mu.Unlock()
	q.waitingRequests += delta
}

// OwnerSheds reports whether the owner rejects requests that have not yet waited for the shard with a final error.
func (q *ShardQueue) OwnerSheds() bool { return q.ownerSheds.Load() }

// HasWaiting reports whether requests wait for any shard.
func (b *ByShard) HasWaiting() bool { return b.queueCount.Load() > 0 }

// SetQueues sets the queues whose requests the ByShard wakes. It must be called before any
// other method.
func (b *ByShard) SetQueues(queues Queues) { b.queues = queues }
