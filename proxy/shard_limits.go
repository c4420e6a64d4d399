package proxy

import "sync/atomic"

// noShard is the place of requests and connections that count for no shard.
const noShard = -1

// shardLimits bounds how many of the app's connections the requests of one shard hold
// or are next for: a key whose requests hang leaves the other keys theirs. Beyond
// its share a shard's requests wait for one another. All with the pool's mu held.
type shardLimits struct {
	most   int                // zero: any number
	counts bool               // of the app's pool; nobody asks for that of another
	used   []int32            // by shard
	whole  []int32            // of these, requests whose answer the app has given as a whole
	parked map[int]*waitQueue // who waits for another request of the shard to end, or to be answered
}

// full reports whether the shard has its share.
func (s *shardLimits) full(shard int) bool {
	return s.most > 0 && shard >= 0 && shard < len(s.used) && int(s.used[shard]) >= s.most
}

// inflightFull reports whether as many requests of the shard are under way, or in line, as
// there may be; zero: any number.
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

// under returns how many requests of the shard are under way, or next for a connection.
func (s *shardLimits) under(shard int) int {
	n := int(s.used[shard])
	if shard < len(s.whole) {
		n -= int(s.whole[shard])
	}
	return n
}

// charge counts one more for the shard.
func (s *shardLimits) charge(shard int) {
	if !s.counts || shard < 0 {
		return
	}
	for shard >= len(s.used) {
		s.used = append(s.used, 0)
	}
	s.used[shard]++
}

// park has a waiter wait for its shard's share.
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

// unpark takes the first of those who wait for the shard's share, or for its bound, if
// there is room for it; nil if there is none.
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
		for w.maxInflight > 0 { // a stream that comes back is not held up by those
			w = w.next
		}
	}
	q.remove(w)
	s.tidy(shard)
	return w
}

// tidy forgets a line that has become empty.
func (s *shardLimits) tidy(shard int) {
	if q := s.parked[shard]; q != nil && q.n == 0 {
		delete(s.parked, shard)
	}
}

// answered says that the app has given its answer to the request on l as a whole. The
// connection is the request's until the client has that, but what is under way for
// crowded is over before: who asks for the next thing once it has an answer is not one
// too many.
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

// releaseShard has l count for no shard any more, nor for a socket. With mu held.
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

// releaseShardSlot gives back what charge counted, and lets the next of the shard in.
func (p *pool) releaseShardSlot(shard int) {
	s := &p.mu.shardLimits
	if !s.counts || shard < 0 {
		return
	}
	s.used[shard]--
	p.next(shard)
}

// next has the next that is parked for the shard get in line.
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

// remove takes a waiter out of the line that it is in.
func (p *pool) remove(w *waiter) {
	w.in.remove(w)
	if w.waitsForShard {
		p.mu.shardLimits.tidy(w.shard)
		return
	}
	p.releaseShardSlot(w.shard)
}

// waiters returns all that are in line.
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

// streams bounds how many connections to the app may count as streams.
type streams struct {
	most int64
	open atomic.Int64
}

// full reports whether there are as many as may be.
func (s *streams) full() bool { return s.open.Load() >= s.most }

// detach has a connection count as a stream and no more among the pool's: what
// runs on it may go on for hours. It stays where it is if there are as many streams
// as may be, or if still says that it runs no more what was looked at; that is
// asked with mu held, so that put and drop see what became of it.
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
