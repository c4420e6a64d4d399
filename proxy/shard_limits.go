package proxy

import "sync/atomic"

// noShard is the shard of requests and connections that count for no shard.
const noShard = -1

// shardLimits limits how many connections to the app the requests of one shard use or are about to
// use. A key whose requests hang then leaves connections to other keys. Beyond its limit, the
// requests of a shard wait for each other. The mu of the pool protects all fields.
type shardLimits struct {
	most   int                // limit for each shard; zero means no limit
	counts bool               // set for the pool of the app only
	used   []int32            // connections, by shard
	whole  []int32            // of used, requests whose response is complete
	parked map[int]*waitQueue // waiters at a limit, by shard
}

// full reports whether the shard uses all its connections.
func (s *shardLimits) full(shard int) bool {
	return s.most > 0 && shard >= 0 && shard < len(s.used) && int(s.used[shard]) >= s.most
}

// inflightFull reports whether the shard has the maximum number of requests in progress or in the
// queue; most zero means no limit.
func (s *shardLimits) inflightFull(shard, most int) bool {
	if most == 0 || shard < 0 || shard >= len(s.used) {
		return false
	}
	n := s.under(shard)
	if q := s.parked[shard]; q != nil {
		n += q.n
	}
	return n >= most
}

// under returns how many requests of the shard are in progress, or next for a connection.
func (s *shardLimits) under(shard int) int {
	n := int(s.used[shard])
	if shard < len(s.whole) {
		n -= int(s.whole[shard])
	}
	return n
}

// charge counts another connection for the shard.
func (s *shardLimits) charge(shard int) {
	if !s.counts || shard < 0 {
		return
	}
	for shard >= len(s.used) {
		s.used = append(s.used, 0)
	}
	s.used[shard]++
}

// park lets a waiter wait for the limit of its shard.
func (s *shardLimits) park(w *waiter) {
	if s.parked == nil {
		s.parked = make(map[int]*waitQueue)
	}
	q := s.parked[w.shard]
	if q == nil {
		q = new(waitQueue)
		s.parked[w.shard] = q
	}
	q.push(w)
}

// unpark removes and returns the first waiter of the shard that the limits permit, or nil.
func (s *shardLimits) unpark(shard int) *waiter {
	q := s.parked[shard]
	if q == nil || s.full(shard) {
		return nil
	}
	w := q.head
	if w.maxInflight > 0 && s.under(shard) >= w.maxInflight {
		if q.unbounded == 0 {
			return nil
		}
		for w.maxInflight > 0 { // a resumed stream does not wait behind requests
			w = w.next
		}
	}
	q.remove(w)
	s.tidy(shard)
	return w
}

// tidy removes an empty queue.
func (s *shardLimits) tidy(shard int) {
	if q := s.parked[shard]; q != nil && q.n == 0 {
		delete(s.parked, shard)
	}
}

// answered records that the response of the app on l is complete. The request keeps the connection
// until the client has received the response, but it no longer counts for the in-flight limit: a
// client that sends its next request after a response does not exceed the limit.
func (p *pool) answered(l *upstreamConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.mu.shardLimits
	if !s.counts || l.shard < 0 || l.whole {
		return
	}
	for l.shard >= len(s.whole) {
		s.whole = append(s.whole, 0)
	}
	s.whole[l.shard]++
	l.whole = true
	p.next(l.shard)
}

// releaseShard ends the count of l for its shard and as a WebSocket that awaits its response. The
// caller holds p.mu.
func (p *pool) releaseShard(l *upstreamConn) {
	p.upgradeRespondedLocked(l)
	place := l.shard
	l.shard = noShard
	if l.whole {
		p.mu.shardLimits.whole[place]--
		l.whole = false
	}
	p.releaseShardSlot(place)
}

// releaseShardSlot reverses charge, and admits the next waiter of the shard.
func (p *pool) releaseShardSlot(shard int) {
	s := &p.mu.shardLimits
	if !s.counts || shard < 0 {
		return
	}
	s.used[shard]--
	p.next(shard)
}

// next moves the next waiter at the limit of the shard to the queue.
func (p *pool) next(shard int) {
	s := &p.mu.shardLimits
	if len(s.parked) == 0 {
		return
	}
	w := s.unpark(shard)
	if w == nil {
		return
	}
	s.charge(shard)
	w.waitsForShard = false
	if l := p.popNewestFor(w); l != nil {
		l.shard = shard
		w.granted <- grant{l: l}
		return
	}
	p.mu.queue.push(w)
	p.dialForWaiters()
}

// remove removes a waiter from its queue.
func (p *pool) remove(w *waiter) {
	w.in.remove(w)
	if w.waitsForShard {
		p.mu.shardLimits.tidy(w.shard)
		return
	}
	p.releaseShardSlot(w.shard)
}

// waiters returns all waiters, those at shard limits first.
func (p *pool) waiters() []*waiter {
	var all []*waiter
	collect := func(q *waitQueue) {
		for w := q.head; w != nil; w = w.next {
			all = append(all, w)
		}
	}
	for _, q := range p.mu.shardLimits.parked {
		collect(q)
	}
	collect(&p.mu.queue)
	return all
}

// streams limits how many connections to the app may count as long-lived.
type streams struct {
	most int64
	open atomic.Int64
}

// full reports whether the limit is reached.
func (s *streams) full() bool { return s.open.Load() >= s.most }

// detach counts a connection as long-lived instead of pooled, because its response may last for
// hours. It reports false if the limit of long-lived connections is reached, or if still returns
// false, which means that the run has ended meanwhile. It calls still with p.mu held, so that put
// and discard see the result.
func (p *pool) detach(l *upstreamConn, still func() bool) bool {
	if p.streams.open.Add(1) > p.streams.most {
		p.streams.open.Add(-1)
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.longLived || still != nil && !still() {
		p.streams.open.Add(-1)
		return false
	}
	l.longLived = true
	p.mu.longLived++
	p.mu.open--
	p.releaseShard(l)
	p.dialForWaiters()
	return true
}
