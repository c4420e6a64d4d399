package proxy

// noShard is used for requests and connections that do not count towards a shard.
const noShard = -1

// shardLimits limits the number of app connections that the requests of one shard use or are about
// to use. If the requests for a key hang, other keys can still get connections. At its limit, the
// requests of a shard wait for each other. pool.mu protects all fields.
type shardLimits struct {
	maxConns int                // limit for each shard; zero means no limit
	counts   bool               // set for the pool of the app only
	used     []int32            // connections in use, by shard
	complete []int32            // connections of used whose response is complete, by shard
	waiting  map[int]*waitQueue // waiters at a limit, by shard
}

// isFull reports whether the shard uses all its connections.
func (s *shardLimits) isFull(shard int) bool {
	return s.maxConns > 0 && shard >= 0 && shard < len(s.used) && int(s.used[shard]) >= s.maxConns
}

// isInflightFull reports whether the shard has at least most requests in progress or waiting. most
// zero means no limit.
func (s *shardLimits) isInflightFull(shard, most int) bool {
	if most == 0 || shard < 0 || shard >= len(s.used) {
		return false
	}
	n := s.inflight(shard)
	if q := s.waiting[shard]; q != nil {
		n += q.length
	}
	return n >= most
}

// inflight returns the number of requests of the shard that are in progress or in the queue for a
// connection.
func (s *shardLimits) inflight(shard int) int {
	n := int(s.used[shard])
	if shard < len(s.complete) {
		n -= int(s.complete[shard])
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

// enqueue adds a waiter to the queue for the limit of its shard.
func (s *shardLimits) enqueue(w *waiter) {
	if s.waiting == nil {
		s.waiting = make(map[int]*waitQueue)
	}
	q := s.waiting[w.shard]
	if q == nil {
		q = new(waitQueue)
		s.waiting[w.shard] = q
	}
	q.push(w)
}

// dequeue removes and returns the first waiter of the shard that the limits permit. It returns nil
// if there is none.
func (s *shardLimits) dequeue(shard int) *waiter {
	q := s.waiting[shard]
	if q == nil || s.isFull(shard) {
		return nil
	}
	w := q.head
	if w.maxInflight > 0 && s.inflight(shard) >= w.maxInflight {
		if q.unbounded == 0 {
			return nil
		}
		for w.maxInflight > 0 { // the loop skips requests, because a resumed stream has no limit and does not wait for them
			w = w.next
		}
	}
	q.remove(w)
	s.removeIfEmpty(shard)
	return w
}

// removeIfEmpty removes the queue of the shard if it is empty.
func (s *shardLimits) removeIfEmpty(shard int) {
	if q := s.waiting[shard]; q != nil && q.length == 0 {
		delete(s.waiting, shard)
	}
}

// responseCompleted records that the response of the app on l is complete. The connection stays in
// use until the client has received the response, but the request no longer counts towards the
// in-flight limit. Otherwise a client that sends its next request right after a response could
// exceed the limit.
func (p *pool) responseCompleted(l *upstreamConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.mu.shardLimits
	if !s.counts || l.shard < 0 || l.responseComplete {
		return
	}
	for l.shard >= len(s.complete) {
		s.complete = append(s.complete, 0)
	}
	s.complete[l.shard]++
	l.responseComplete = true
	p.admitNextOfShard(l.shard)
}

// releaseShard stops counting l for its shard, and as a WebSocket that awaits its upgrade response.
// The caller must hold p.mu.
func (p *pool) releaseShard(l *upstreamConn) {
	p.upgradeRespondedLocked(l)
	place := l.shard
	l.shard = noShard
	if l.responseComplete {
		p.mu.shardLimits.complete[place]--
		l.responseComplete = false
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
	p.admitNextOfShard(shard)
}

// admitNextOfShard moves the first waiter at the limit of the shard to the queue of the pool, if
// the limit now permits that.
func (p *pool) admitNextOfShard(shard int) {
	s := &p.mu.shardLimits
	if len(s.waiting) == 0 {
		return
	}
	w := s.dequeue(shard)
	if w == nil {
		return
	}
	s.charge(shard)
	w.waitsForShard = false
	if l := p.popNewestFor(w); l != nil {
		l.shard = shard
		w.granted <- grant{conn: l}
		return
	}
	p.mu.queue.push(w)
	p.dialForWaiters()
}

// removeWaiter removes a waiter from the queue that contains it.
func (p *pool) removeWaiter(w *waiter) {
	w.queue.remove(w)
	if w.waitsForShard {
		p.mu.shardLimits.removeIfEmpty(w.shard)
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
	for _, q := range p.mu.shardLimits.waiting {
		collect(q)
	}
	collect(&p.mu.queue)
	return all
}
