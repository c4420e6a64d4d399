package connpool

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"shardway/proxy/h1"
)

// After all connections are closed and all waiting requests have ended, the counts of shards and of
// streams are zero.
func TestPoolCountsReturnToZero(t *testing.T) {
	var ends sync.Map
	p := testPool("", func(context.Context) (*Conn, error) {
		if rand.IntN(10) == 0 {
			return nil, errors.New("down")
		}
		here, there := net.Pipe()
		ends.Store(there, nil)
		return &Conn{Conn: h1.NewConn(here, h1.Options{})}, nil
	})
	const most, share = 6, 3
	p.opts.MaxConns, p.mu.shardLimits.maxConns = most, share
	var all sync.WaitGroup
	for shard := range 4 {
		for range 6 {
			all.Go(func() {
				for range 300 {
					conn := p.Get(Requirements{Shard: shard})
					for tries := 0; conn == nil && tries < 3; tries++ {
						waiter := &Waiter{Shard: shard}
						got, _, err := p.Join(waiter)
						if got == nil && err == nil {
							got, err = p.Await(waiter, nil, time.Duration(rand.IntN(1000))*time.Microsecond)
						}
						if errors.Is(err, ErrBreakerOpen) {
							p.Breaker.ProbeWithReused()
						}
						conn = got
					}
					if conn == nil {
						continue
					}
					p.mu.Lock()
					if open, used := p.mu.open, int(p.mu.shardLimits.used[shard]); open > most || used > share {
						t.Errorf("%d open, %d of one shard; want %d and %d at most", open, used, most, share)
					}
					p.mu.Unlock()
					if rand.IntN(8) == 0 {
						p.Detach(conn, nil)
					}
					if rand.IntN(3) == 0 {
						p.Discard(conn)
					} else {
						p.Put(conn)
					}
				}
			})
		}
	}
	all.Wait()
	p.opts.Dialers.Wait()
	p.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for shard, n := range p.mu.shardLimits.used {
		if n != 0 {
			t.Errorf("%d connections count for shard %d, want none", n, shard)
		}
	}
	if p.mu.open != 0 || p.mu.dials.inProgress != 0 || p.opts.LongLived.open.Load() != 0 || len(p.mu.shardLimits.waiting) != 0 || p.mu.queue.waiters.Len() != 0 {
		t.Errorf("%d open, %d dialed, %d streams, %d + %d in line; want none",
			p.mu.open, p.mu.dials.inProgress, p.opts.LongLived.open.Load(), len(p.mu.shardLimits.waiting), p.mu.queue.waiters.Len())
	}
}

// A request with a complete response no longer counts as in flight for the limit of its shard, even
// while it still has its connection. Once, a client that sent its next request right after the
// response sometimes exceeded the limit.
func TestCompleteResponsesDoNotCountAsInFlight(t *testing.T) {
	here, there := net.Pipe()
	defer func() { _ = there.Close() }()
	over := make(chan struct{})
	p := testPool("", func(context.Context) (*Conn, error) {
		<-over // a request that fails at once would end the wait of the next one
		return nil, ErrBusy
	})
	defer p.opts.Dialers.Wait()
	defer close(over)
	conn := &Conn{Conn: h1.NewConn(here, h1.Options{}), Pool: p, shard: NoShard}
	p.mu.open, p.mu.idle.conns = 1, []*Conn{conn}
	if p.Get(Requirements{Shard: 3, MaxInflight: 1}) != conn {
		t.Fatal("the connection was not to be had")
	}
	_, _, err := p.Join(&Waiter{Shard: 3, MaxInflight: 1})
	if !errors.Is(err, ErrShardInflightLimit) {
		t.Errorf("beside one that runs: %v, want %v", err, ErrShardInflightLimit)
	}
	p.RecordResponseEnd(conn)
	p.RecordResponseEnd(conn)
	next := &Waiter{Shard: 3, MaxInflight: 1}
	if _, _, err = p.Join(next); err != nil {
		t.Errorf("beside one that was answered: %v", err)
	}
	if _, _, err = p.Join(&Waiter{Shard: 3, MaxInflight: 1}); !errors.Is(err, ErrShardInflightLimit) {
		t.Errorf("beside the next: %v, want %v", err, ErrShardInflightLimit)
	}
	p.Put(conn)
	if got := <-next.granted; got.conn != conn && got.err == nil {
		t.Errorf("turn = %+v", got)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.shardLimits.complete[3] != 0 {
		t.Errorf("%d answered requests count, want none", p.mu.shardLimits.complete[3])
	}
}

// A request without a limit waits for its shard's connections only, not behind requests that wait for
// the limit. Once, a resumed stream waited in the queue as long as a long poll of its shard ran.
func TestUnlimitedRequestPassesLimitedWaiters(t *testing.T) {
	over := make(chan struct{})
	p := testPool("", func(context.Context) (*Conn, error) {
		<-over
		return nil, ErrBusy
	})
	defer p.opts.Dialers.Wait()
	defer close(over)
	p.mu.shardLimits.maxConns = 2
	for range 2 {
		here, there := net.Pipe()
		defer func() { _ = there.Close() }()
		p.mu.idle.conns = append(p.mu.idle.conns, &Conn{Conn: h1.NewConn(here, h1.Options{}), Pool: p, shard: NoShard})
		p.mu.open++
	}
	p.Get(Requirements{Shard: 3, MaxInflight: 1})
	stream := p.Get(Requirements{Shard: 3})
	bound, free := &Waiter{Shard: 3, MaxInflight: 1, HasWaited: true}, &Waiter{Shard: 3}
	for _, waiter := range []*Waiter{bound, free} {
		if conn, _, err := p.Join(waiter); conn != nil || err != nil || !waiter.waitsForShard {
			t.Fatalf("beside as many as may be: %v, %v, parked %v", conn, err, waiter.waitsForShard)
		}
	}
	p.Put(stream)
	if free.waitsForShard || !bound.waitsForShard {
		t.Errorf("as a place of the share is free: who has no bound waits: %v, who waits for it: %v, want only that", free.waitsForShard, bound.waitsForShard)
	}
}
