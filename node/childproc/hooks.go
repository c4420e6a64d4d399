package childproc

import (
	"context"
	"errors"
	"sync"
	"time"

	"shardway/ack/agent"
	"shardway/proxy/procpool"
	"shardway/shardmap"
)

// concurrentStarts limits the processes that an acquire call starts at the same time.
const concurrentStarts = 8

// Do implements the hooks of the node. A release or lost call returns when no process of its shards is left.
func (s *Supervisor) Do(ctx context.Context, call agent.HookCall) agent.HookResult {
	switch call.Kind {
	case agent.HookAcquire:
		return s.acquire(ctx, call.Shards)
	case agent.HookRelease:
		s.disown(ctx, call.Shards, s.graceOf(ctx))
	case agent.HookLost:
		s.disown(ctx, call.Shards, 0)
	}
	return agent.HookResult{}
}

// graceOf returns the time between SIGTERM and SIGKILL in a release call. The rest of the release timeout is
// reserved for the acknowledgement. An operator can set a longer time for a drain, of which each call gets a part.
func (s *Supervisor) graceOf(ctx context.Context) time.Duration {
	grace := s.options.ReleaseTimeout * 7 / 10
	if deadline, ok := ctx.Deadline(); ok {
		grace = max(grace, time.Until(deadline)*9/10)
	}
	return grace
}

// acquire records that the node owns shards. With PerShard, it starts their processes and waits until they are ready.
func (s *Supervisor) acquire(ctx context.Context, shards []agent.HookShard) agent.HookResult {
	// Processes of an earlier epoch may hold state of a shard that another node has since changed.
	if stale := s.staleShards(shards); len(stale) > 0 {
		s.disown(ctx, stale, 0)
	}
	s.mu.Lock()
	for _, shard := range shards {
		s.owned[shard.Shard] = shard.Epoch
	}
	isClosed := s.closed
	s.mu.Unlock()
	if isClosed {
		return agent.HookResult{Err: procpool.ErrNotOwned}
	}
	if s.options.Per != PerShard {
		return agent.HookResult{}
	}
	var mu sync.Mutex
	result := agent.HookResult{Failed: map[shardmap.Shard]string{}}
	slots := make(chan struct{}, concurrentStarts)
	var starts sync.WaitGroup
	for _, shard := range shards {
		slots <- struct{}{}
		starts.Go(func() {
			defer func() { <-slots }()
			if _, err := s.await(ctx, procpool.Target{Shard: shard.Shard}); err != nil {
				mu.Lock()
				defer mu.Unlock()
				result.Failed[shard.Shard] = err.Error()
			}
		})
	}
	starts.Wait()
	return result
}

// staleShards returns the shards that the node has acquired in another epoch.
func (s *Supervisor) staleShards(shards []agent.HookShard) (stale []agent.HookShard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, shard := range shards {
		if epoch, isOwned := s.owned[shard.Shard]; isOwned && epoch != shard.Epoch {
			stale = append(stale, shard)
		}
	}
	return stale
}

// disown stops all processes of shards, prevents new ones, and returns when none is left. If ctx is cancelled, the
// processes get SIGKILL.
func (s *Supervisor) disown(ctx context.Context, shards []agent.HookShard, grace time.Duration) {
	var stopping []*process
	s.mu.Lock()
	for _, shard := range shards {
		delete(s.owned, shard.Shard)
	}
	for _, p := range s.processes {
		if _, isOwned := s.owned[p.target.Shard]; !isOwned {
			s.stopLocked(p, grace)
			stopping = append(stopping, p)
		}
	}
	s.mu.Unlock()
	cancelled := ctx.Done()
	if grace == 0 {
		cancelled = nil
	}
	for _, p := range stopping {
		select {
		case <-p.ended:
			continue
		case <-cancelled:
		}
		if cancelled = nil; errors.Is(ctx.Err(), context.Canceled) {
			s.killAll(stopping)
		}
		<-p.ended
	}
}

// killAll sends SIGKILL to processes that are stopping.
func (s *Supervisor) killAll(stopping []*process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range stopping {
		s.stopLocked(p, 0)
	}
}
