package proxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"shardway/proxy/h1"
	"shardway/queue"
)

// Whatever becomes of connections and of those who wait for them, in the end none
// is counted any more, for a shard or among the streams.
func TestCountsOfAPoolComeBackToZero(t *testing.T) {
	s := New(Options{Room: queue.New(queue.Options{}), Streams: 3})
	var ends sync.Map
	p := s.newPool("", func(context.Context) (*link, error) {
		if rand.IntN(10) == 0 {
			return nil, errors.New("down")
		}
		here, there := net.Pipe()
		ends.Store(there, nil)
		return &link{Conn: h1.NewConn(here, h1.Options{})}, nil
	})
	const most, share = 6, 3
	p.max, p.mu.shares.most = most, share
	var all sync.WaitGroup
	for shard := range 4 {
		for range 6 {
			all.Go(func() {
				for range 300 {
					l := p.take(shard, false, 0)
					for tries := 0; l == nil && tries < 3; tries++ {
						w := &waiter{place: shard}
						got, _, err := p.join(w)
						if got == nil && err == nil {
							got, err = p.await(w, nil, time.Duration(rand.IntN(1000))*time.Microsecond)
						}
						if errors.Is(err, errShut) {
							p.gate.turnComes()
						}
						l = got
					}
					if l == nil {
						continue
					}
					p.mu.Lock()
					if open, used := p.mu.open, int(p.mu.shares.used[shard]); open > most || used > share {
						t.Errorf("%d open, %d of one shard; want %d and %d at most", open, used, most, share)
					}
					p.mu.Unlock()
					if rand.IntN(8) == 0 {
						p.detach(l, nil)
					}
					if rand.IntN(3) == 0 {
						p.drop(l)
					} else {
						p.put(l)
					}
				}
			})
		}
	}
	all.Wait()
	s.dialers.Wait()
	p.closeIdle()
	p.mu.Lock()
	defer p.mu.Unlock()
	for shard, n := range p.mu.shares.used {
		if n != 0 {
			t.Errorf("%d connections count for shard %d, want none", n, shard)
		}
	}
	if p.mu.open != 0 || p.mu.dialing != 0 || s.streams.open.Load() != 0 || len(p.mu.shares.parked) != 0 || p.mu.line.n != 0 {
		t.Errorf("%d open, %d dialed, %d streams, %d + %d in line; want none",
			p.mu.open, p.mu.dialing, s.streams.open.Load(), len(p.mu.shares.parked), p.mu.line.n)
	}
}
