package proxy

import (
	"context"
	"math"
	"time"

	"shardway/shardmap"
)

// maxResumeWaits limits the total time that a WebSocket may wait for a relay, as a multiple of
// ResumeTimeout.
const maxResumeWaits = 6

// resumeDeadline limits how long a resumable WebSocket may be without an upstream connection. The
// limit is ResumeTimeout. It starts again whenever another WebSocket is resumed at the same
// destination: a queue that makes progress is not an outage, even if the machine is slow and the
// queue is long. If the clients in such a queue were closed, all of them would reconnect together.
// check extends the limit after checking for progress.
type resumeDeadline struct {
	server    *Server
	shard     shardmap.Shard
	onExpired context.CancelFunc
	latestEnd time.Duration // latest deadline, by the clock of the server
	timer     *time.Timer
}

// limitResume calls end when a WebSocket of the shard has waited longer than its resumeDeadline
// permits, unless the caller calls stop first.
func (s *Server) limitResume(shard shardmap.Shard, onExpired context.CancelFunc) (stop func() bool) {
	deadline := &resumeDeadline{server: s, shard: shard, onExpired: onExpired, latestEnd: s.clock.Now() + maxResumeWaits*s.options.ResumeTimeout}
	deadline.timer = time.AfterFunc(math.MaxInt64, deadline.check) // w.timer must be set before check runs
	deadline.timer.Reset(s.options.ResumeTimeout)
	return deadline.timer.Stop
}

func (deadline *resumeDeadline) check() {
	now := deadline.server.clock.Now()
	var end time.Duration
	if pool := deadline.server.upstreams.poolFor(deadline.shard, deadline.server.options.Cluster.Table()); pool != nil {
		end = min(pool.LastResumeTime()+deadline.server.options.ResumeTimeout, deadline.latestEnd)
	}
	if end <= now {
		deadline.onExpired()
		return
	}
	deadline.timer.Reset(end - now)
}
