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

// resumeDeadline limits how long a resumable WebSocket may be without an upstream connection. The limit is
// ResumeTimeout, restarted whenever another WebSocket is resumed at the same destination: a queue that makes
// progress is not an outage, even if the machine is slow and the queue is long. If the clients in such a queue were
// disconnected, they would all reconnect together.
type resumeDeadline struct {
	sockets   *webSockets
	shard     shardmap.Shard
	onExpired context.CancelFunc
	latestEnd time.Duration // latest deadline, by the clock of sockets
	timer     *time.Timer
}

// limitResume calls onExpired when a WebSocket of the shard exceeds its resumeDeadline, unless the caller calls
// stop first.
func (sockets *webSockets) limitResume(shard shardmap.Shard, onExpired context.CancelFunc) (stop func() bool) {
	deadline := &resumeDeadline{sockets: sockets, shard: shard, onExpired: onExpired, latestEnd: sockets.clock.Now() + maxResumeWaits*sockets.resumeTimeout}
	deadline.timer = time.AfterFunc(math.MaxInt64, deadline.check) // deadline.timer must be set before check runs
	deadline.timer.Reset(sockets.resumeTimeout)
	return deadline.timer.Stop
}

// check runs when the timer has expired. It extends the limit if another WebSocket has since been resumed at the
// same destination.
func (deadline *resumeDeadline) check() {
	now := deadline.sockets.clock.Now()
	var end time.Duration
	if pool := deadline.sockets.upstreams.PoolFor(deadline.shard, deadline.sockets.cluster.Table()); pool != nil {
		end = min(pool.LastResumeTime()+deadline.sockets.resumeTimeout, deadline.latestEnd)
	}
	if end <= now {
		deadline.onExpired()
		return
	}
	deadline.timer.Reset(end - now)
}
