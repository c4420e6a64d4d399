package proxy

import (
	"context"
	"math"
	"time"

	"shardway/shardmap"
)

// maxResumeWaits is how many times SocketWait a socket waits at most.
const maxResumeWaits = 6

// resumeDeadline is how long a kept socket goes without a leg: SocketWait, counted anew when
// another one has come back at the node that has its app. A queue that goes on is no
// outage, however slow the machine and however many stand in it: to close its clients would
// bring them all back at once. Whether it goes on is looked at when the time is over.
type resumeDeadline struct {
	s     *Server
	shard shardmap.Shard
	end   context.CancelFunc
	most  time.Duration // by the server's clock
	timer *time.Timer
}

// limitResume has end called once a socket of the shard has waited in vain, unless stop is
// called before that.
func (s *Server) limitResume(shard shardmap.Shard, end context.CancelFunc) (stop func() bool) {
	w := &resumeDeadline{s: s, shard: shard, end: end, most: s.clock.now() + maxResumeWaits*s.o.SocketWait}
	w.timer = time.AfterFunc(math.MaxInt64, w.look) // it is known here before it is over
	w.timer.Reset(s.o.SocketWait)
	return w.timer.Stop
}

func (w *resumeDeadline) look() {
	now := w.s.clock.now()
	var until time.Duration
	if p := w.s.poolOf(w.shard); p != nil {
		until = min(time.Duration(p.lastResumed.Load())+w.s.o.SocketWait, w.most)
	}
	if until <= now {
		w.end()
		return
	}
	w.timer.Reset(until - now)
}

// poolOf is where the app of a shard is reached now; nil: nobody serves it.
func (s *Server) poolOf(shard shardmap.Shard) *pool {
	t := s.o.Cluster.Table()
	if int(shard) >= t.Shards() {
		return nil
	}
	switch r := t.Route(shard); r.Kind {
	case Local:
		return s.upstream
	case Remote:
		return s.peers.pool(r.Node)
	case Held:
	}
	return nil
}

// noteResumed notes that a socket on its way back has its answer there.
func (p *pool) noteResumed() { p.lastResumed.Store(int64(p.clock.now())) }
