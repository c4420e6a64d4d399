package connpool

import "slices"

// NoShard is used for requests and connections that are not charged to a shard.
const NoShard = -1

// shardLimits limits the number of app connections that the requests of one shard use or are about
// to use. If the requests for a key hang, other keys can still get connections. At its limit, the
// requests of a shard wait for each other. Pool.mu protects all fields.
type shardLimits struct {
	maxConns    int                // limit for each shard; zero means no limit
	countsConns bool               // connections are counted; set for the pool of the app only
	used        []int32            // connections in use, by shard
	complete    []int32            // those of used whose response is complete, by shard
	waiting     map[int]*waitQueue // waiters at a limit, by shard; a shard without waiters has no entry
}

// isFull reports whether the shard uses all its connections.
func (s *shardLimits) isFull(shard int) bool {
	return s.maxConns > 0 && shard >= 0 && shard < len(s.used) && int(s.used[shard]) >= s.maxConns
}

// isInflightFull reports whether the shard has at least maxInflight requests in progress or waiting.
// maxInflight zero means no limit.
func (s *shardLimits) isInflightFull(shard, maxInflight int) bool {
	hasRequests := shard >= 0 && shard < len(s.used)
	if maxInflight == 0 || !hasRequests {
		return false
	}
	requests := s.inflight(shard)
	if q := s.waiting[shard]; q != nil {
		requests += q.waiters.Len()
	}
	return requests >= maxInflight
}

// inflight returns the number of requests of the shard that are in progress or in the queue for a
// connection.
func (s *shardLimits) inflight(shard int) int {
	requests := int(s.used[shard])
	if shard < len(s.complete) {
		requests -= int(s.complete[shard])
	}
	return requests
}

// mayQueue reports whether a request at the in-flight limit of its shard may wait: it has waited
// before, or the shard's queue has a free slot.
func (s *shardLimits) mayQueue(waiter *Waiter) bool {
	if waiter.HasWaited || waiter.MaxQueued == 0 {
		return waiter.HasWaited
	}
	q := s.waiting[waiter.Shard]
	return q == nil || q.waiters.Len() < waiter.MaxQueued
}

// charge counts another connection as used by the shard.
func (s *shardLimits) charge(shard int) {
	if !s.countsConns || shard < 0 {
		return
	}
	for shard >= len(s.used) {
		s.used = append(s.used, 0)
	}
	s.used[shard]++
}

// uncharge reverses charge.
func (s *shardLimits) uncharge(shard int) {
	if s.countsConns && shard >= 0 {
		s.used[shard]--
	}
}

// release stops counting conn for its shard, and returns that shard.
func (s *shardLimits) release(conn *Conn) (shard int) {
	shard, conn.shard = conn.shard, NoShard
	if conn.responseComplete {
		conn.responseComplete = false
		s.complete[shard]--
	}
	s.uncharge(shard)
	return shard
}

// recordResponseEnd records that the response on conn is complete. See Pool.RecordResponseEnd.
func (s *shardLimits) recordResponseEnd(conn *Conn) {
	if !s.countsConns || conn.shard < 0 || conn.responseComplete {
		return
	}
	for conn.shard >= len(s.complete) {
		s.complete = append(s.complete, 0)
	}
	s.complete[conn.shard]++
	conn.responseComplete = true
}

// enqueue adds a waiter to the queue for the limit of its shard.
func (s *shardLimits) enqueue(waiter *Waiter) {
	if s.waiting == nil {
		s.waiting = make(map[int]*waitQueue)
	}
	q := s.waiting[waiter.Shard]
	if q == nil {
		q = new(waitQueue)
		s.waiting[waiter.Shard] = q
	}
	if waiter.HadTurn && waiter.MaxQueued > 0 {
		q.pushFirst(waiter)
		return
	}
	q.push(waiter)
}

// dequeue removes and returns the first waiter of the shard that the limits permit. It returns nil
// if there is none.
func (s *shardLimits) dequeue(shard int) *Waiter {
	q := s.waiting[shard]
	if q == nil || s.isFull(shard) {
		return nil
	}
	waiter := q.waiters.First()
	atInflightLimit := waiter.MaxInflight > 0 && s.inflight(shard) >= waiter.MaxInflight
	if atInflightLimit {
		waiter = q.firstUnbounded() // a resumed stream has no limit, and does not wait for the requests before it
	}
	if waiter == nil {
		return nil
	}
	q.remove(waiter)
	s.removeIfEmpty(shard)
	return waiter
}

// removeIfEmpty removes the queue of the shard if it is empty.
func (s *shardLimits) removeIfEmpty(shard int) {
	if q := s.waiting[shard]; q != nil && q.waiters.Len() == 0 {
		delete(s.waiting, shard)
	}
}

// RecordResponseEnd records that the response of the app on conn is complete. The connection stays
// in use until the client has received the response, but the request no longer counts toward the
// in-flight limit. Otherwise a client that sends its next request right after a response could
// exceed the limit.
func (p *Pool) RecordResponseEnd(conn *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.shardLimits.recordResponseEnd(conn)
	p.admitNextOfShard(conn.shard)
}

// releaseShard stops counting conn for its shard, and as a WebSocket that awaits its upgrade response.
// The caller must hold p.mu.
func (p *Pool) releaseShard(conn *Conn) {
	p.mu.upgrades.remove(conn)
	shard := p.mu.shardLimits.release(conn)
	p.admitNextOfShard(shard)
}

// admitNextOfShard moves the first waiter at the limit of the shard to the queue of the pool, if
// the limit now permits that. The caller must hold p.mu.
func (p *Pool) admitNextOfShard(shard int) {
	s := &p.mu.shardLimits
	waiter := s.dequeue(shard)
	if waiter == nil {
		return
	}
	s.charge(shard)
	waiter.waitsForShard = false
	if conn := p.popNewestFor(waiter); conn != nil {
		conn.shard = shard
		waiter.granted <- grant{conn: conn}
		return
	}
	p.mu.queue.push(waiter)
	p.dialForWaiters()
}

// removeWaiter removes a waiter from the queue that contains it. The caller must hold p.mu.
func (p *Pool) removeWaiter(waiter *Waiter) {
	waiter.queue.remove(waiter)
	if waiter.waitsForShard {
		p.mu.shardLimits.removeIfEmpty(waiter.Shard)
		return
	}
	p.mu.shardLimits.uncharge(waiter.Shard)
	p.admitNextOfShard(waiter.Shard)
}

// waiters returns all waiters. Those that wait for a shard limit come first. The caller must hold
// p.mu.
func (p *Pool) waiters() []*Waiter {
	var all []*Waiter
	for _, queue := range p.mu.shardLimits.waiting {
		all = slices.AppendSeq(all, queue.waiters.All())
	}
	return slices.AppendSeq(all, p.mu.queue.waiters.All())
}
