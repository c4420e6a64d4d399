package proxy

import "sync/atomic"

// noShard is used for requests and connections that do not count towards a shard.
const noShard = -1

// shardLimits limits the number of app connections that the requests of one shard use or are about
// to use. If the requests for a key hang, other keys can still get connections. At its limit, the
// requests of a shard wait for each other. pool.mu protects all fields.
type shardLimits struct {
	most   int                // limit for each shard; zero means no limit
	counts bool               // set for the pool of the app only
	used   []int32            // connections in use, by shard
	whole  []int32            // connections of used whose response is complete, by shard
	parked map[int]*waitQueue // waiters at a limit, by shard
}

// full reports whether the shard uses all its connections.
func (s *shardLimits) full(shard int) bool {
	return s.most > 0 && shard >= 0 && shard < len(s.used) && int(s.used[shard]) >= s.most
}

// inflightFull reports whether the shard has at least most requests in progress or waiting. most
// zero means no limit.
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

// under returns the number of requests of the shard that are in progress or in the queue for a
// connection.
func (s *shardLimits) under(shard int) int {
	n := int(s.used[shard])
	if shard < len(s.whole) {
		n -= int(s.whole[shard])
	}
	return n
}

// charge counts another connection as used by the shard.
func (s *shardLimits) charge(shard int) {
	if !s.counts || shard < 0 {
		return
	}
	for shard >= len(s.used) {
		s.used = append(s.used, 0)
	}
	s.used[shard]++
}

// park adds a waiter to the queue for the limit of its shard.
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

// unpark removes and returns the first waiter of the shard that the limits permit. It returns nil
// if there is none.
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
		for w.maxInflight > 0 { // the loop skips requests, because a resumed stream has no limit and does not wait for them
			w = w.next
		}
	}
	q.remove(w)
	s.tidy(shard)
	return w
}

// tidy removes the queue of the shard if it is empty.
func (s *shardLimits) tidy(shard int) {
	if q := s.parked[shard]; q != nil && q.n == 0 {
		delete(s.parked, shard)
	}
}

// answered records that the response of the app on l is complete. The connection stays in use until
// the client has received the response, but the request no longer counts towards the in-flight
// limit. Otherwise a client that sends its next request right after a response could exceed the
// limit.
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

// releaseShard stops counting l for its shard, and as a WebSocket that awaits its upgrade response.
// The caller must hold p.mu.
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

// next moves the first waiter at the limit of the shard to the queue of the pool, if the limit now
// permits that.
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

// remove removes a waiter from the queue that contains it.
func (p *pool) remove(w *waiter) {
	w.in.remove(w)
	if w.waitsForShard {
		p.mu.shardLimits.tidy(w.shard)
		return
	}
	p.releaseShardSlot(w.shard)
}

// waiters returns all waiters. Those that wait for a shard limit come first.
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

// streams limits the number of app connections that count as long-lived.
type streams struct {
	most int64
	open atomic.Int64
}

// full reports whether the limit is reached.
func (s *streams) full() bool { return s.open.Load() >= s.most }

// detach counts a connection as long-lived instead of pooled, because its response may last for
// hours. It returns false at the limit of long-lived connections. It also returns false if still
// returns false, which means that the run has ended. still is called with p.mu held, so that put
// and discard see the result; nil means that it is not called.
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
