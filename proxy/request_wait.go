package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/backoff"
	"shardway/proxy/connlife"
	"shardway/proxy/route"
	"shardway/queue"
)

// ownerWait is how long a forwarded request may wait at its owner if the owner's log is behind or
// all connections to its app are in use.
const ownerWait = 100 * time.Millisecond

// requestWait implements how a request waits: at its ingress for an owner of its shard or for a
// connection, and briefly at the owner.
type requestWait struct {
	*requestState
	disconnect *connlife.DisconnectWatch
	closing    *atomic.Bool // client.closing
	life       *connlife.Lifetime
	// attemptContext limits an attempt to resume a WebSocket; nil means no limit.
	attemptContext context.Context //nolint:containedctx // it is put back
}

// context returns the context whose end stops all waiting.
func (wait *requestWait) context() context.Context {
	if wait.attemptContext != nil {
		return wait.attemptContext
	}
	return wait.life.Context()
}

// waitFor waits until another attempt is worthwhile. result is the decision to wait, which says
// what to wait for. waitFor returns actionRetry for another attempt, and otherwise the final
// decision. QueueWait limits the total waiting time of a request.
func (wait *requestWait) waitFor(result decision) decision {
	startedAt := time.Now()
	timeLeft := wait.timeLeft(startedAt)
	if timeLeft <= 0 || wait.server.explain.IsHopeless(result.reason) {
		return wait.expiredDecision(result)
	}
	if failed := wait.enterQueue(); failed.action != 0 {
		return failed
	}
	if !wait.exchange.hasWaited {
		wait.exchange.hasWaited, wait.exchange.firstWaitReason = true, result.reason
		wait.server.metrics.Queued[result.reason].Add(1)
	}
	if result.reason == route.ReasonRestarting {
		wait.exchange.eventStream.OwnerRestarting()
	}
	wait.disconnect.Arm()
	wait.disconnect.Start()
	err := wait.await(result, timeLeft)
	wait.disconnect.Disarm()
	elapsed := time.Since(startedAt)
	wait.exchange.waitTime += elapsed
	wait.server.metrics.QueuedNanos[result.reason].Add(int64(elapsed))
	switch {
	case wait.closing.Load() || errors.Is(err, queue.ErrCanceled):
		return done
	case err != nil:
		return wait.expiredDecision(result)
	}
	return decision{action: actionRetry}
}

// await blocks until the event that the decision waits for, or until the waiting time is over. It
// returns nil if another attempt is worthwhile.
func (wait *requestWait) await(result decision, timeLeft time.Duration) error {
	maxWait := timeLeft
	if result.backoff {
		maxWait = min(timeLeft, wait.nextPause())
	}
	if result.notAcquired.generation != 0 {
		return wait.awaitReportProcessed(result.notAcquired)
	}
	if result.requiresNewerEpochs(wait.server.options.Cluster.Table()) {
		return wait.awaitEpochs(result)
	}
	if result.condition != nil {
		result.condition.AddWaiting(1)
		defer result.condition.AddWaiting(-1)
		return wait.exchange.ticket.WaitFor(wait.context().Done(), result.generation, 0, result.condition)
	}
	return wait.exchange.ticket.Wait(wait.context().Done(), result.generation, maxWait)
}

// nextPause returns the pause before the next retry. It doubles with each retry of the request, from
// backoff.MinPause to backoff.MaxPause.
func (wait *requestWait) nextPause() time.Duration {
	pause := max(2*wait.exchange.lastPause, backoff.MinPause)
	wait.exchange.lastPause = min(pause, backoff.MaxPause)
	return wait.exchange.lastPause
}

// awaitReportProcessed waits until this node has processed the report that its app has not acquired
// the shard. After that, the table routes the shard elsewhere or queues its requests, or the app
// has acquired it again. A newer table alone does not prove that the report was processed. The wait
// ends if the lease is lost, because the node then does not tell the app to acquire the shard.
func (wait *requestWait) awaitReportProcessed(reported attemptEpoch) error {
	for {
		table := wait.server.options.Cluster.Table()
		dest := table.Route(wait.exchange.shard)
		routeUnchanged := dest.Kind == route.Local && dest.Epoch == reported.epoch
		acquiredAgain := table.IsNewTo(wait.exchange.shard, reported.generation)
		if !routeUnchanged || acquiredAgain || wait.server.options.Cluster.LeaseLeft() <= 0 {
			return nil
		}
		if err := wait.exchange.ticket.Wait(wait.context().Done(), table.Generation(), backoff.MaxPause); err != nil {
			return err
		}
	}
}

// awaitEpochs waits until this node's routing table has the epochs reported by an owner. The wait
// queue releases the waiting requests gradually.
func (wait *requestWait) awaitEpochs(result decision) error {
	for {
		table := wait.server.options.Cluster.Table()
		if !result.requiresNewerEpochs(table) {
			return nil
		}
		if err := wait.exchange.ticket.Wait(wait.context().Done(), table.Generation(), 0); err != nil {
			return err
		}
	}
}

// requiresNewerEpochs reports whether the table is older than the epochs that the request waits
// for.
func (result *decision) requiresNewerEpochs(table *route.Table) bool {
	return result.committed > table.Committed() || result.proposed > table.Proposed()
}

// timeLeft returns what remains of QueueWait or of TotalTimeout, whichever is less. The first call
// starts QueueWait.
func (wait *requestWait) timeLeft(now time.Time) time.Duration {
	if wait.exchange.deadline.IsZero() {
		wait.exchange.deadline = wait.limitByTotalTimeout(now.Add(wait.server.options.QueueWait))
	}
	return wait.exchange.deadline.Sub(now)
}

// memorySize returns the memory of the waiting request in bytes: its header, the buffer of its
// body or first message, and data that was read beyond the request.
func (wait *requestWait) memorySize() int64 {
	wait.inbound.ReleaseEmptyBuffers()
	size := wait.inbound.BufferSize() + wait.req.MemorySize() + cap(wait.body.Buffered)
	if accepted := wait.exchange.accepted; accepted != nil {
		size += accepted.MemorySize()
	}
	return int64(size)
}

// enterQueue reserves a slot in the wait queue, unless the request already has one. Resumed event
// streams and WebSockets have their own queues, so that they do not use up the slots of new
// requests.
func (wait *requestWait) enterQueue() decision {
	if wait.exchange.ticket != nil {
		return decision{}
	}
	entryQueue, shard := wait.server.options.Queue, wait.exchange.queueShard()
	switch {
	case wait.exchange.eventStream != nil:
		entryQueue, shard = wait.server.streamQueue, queue.NoShard
	case wait.exchange.isResumption():
		entryQueue, shard = wait.server.webSockets.queue, queue.NoShard
	}
	ticket, err := entryQueue.Enter(shard, wait.memorySize())
	if err != nil {
		return wait.decideAfterQueueError(err)
	}
	wait.exchange.finishQueueing() // the previous ticket was released by the queue without success
	wait.exchange.ticket = ticket
	hasWaitedBefore := !wait.exchange.deadline.IsZero()
	if hasWaitedBefore {
		ticket.LimitDeadline(wait.exchange.deadline)
	}
	return decision{}
}

// decideAfterQueueError returns the final decision for a request that the wait queue rejected with
// err.
func (wait *requestWait) decideAfterQueueError(err error) decision {
	switch {
	case wait.exchange.mayHaveRun():
		return wait.exchange.failExpiredWait(decision{})
	case errors.Is(err, queue.ErrShardLimit):
		return fail(problem.QueueFull, "too many requests for this shard are waiting, or they take up too much memory: one shard has half of --queue-requests and --queue-bytes, and a quarter while others wait")
	}
	return fail(problem.QueueFull, "too many requests are waiting, or they take up too much memory (--queue-requests, --queue-bytes)")
}

// pause waits before a safe request is retried at an owner, after its connection to the app broke.
// The pause is needed because the connections of a dying app break one after another. pause reports
// whether the request may be retried; decideRetry limits the number of attempts.
func (wait *requestWait) pause(result decision) bool {
	connBroke := result.refusal == 0
	if !connBroke || wait.exchange.safety != safeMethod || wait.closing.Load() {
		return false
	}
	timer := time.NewTimer(backoff.MinPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-wait.context().Done():
		return false
	}
}

// catchUp waits for up to ownerWait until this node has applied the ingress's epochs, and reports
// whether it has.
func (wait *requestWait) catchUp(committed, proposed uint64) bool {
	ctx, cancel := context.WithTimeout(wait.context(), ownerWait)
	defer cancel()
	return wait.server.options.Cluster.Await(ctx, committed, proposed)
}

// expiredDecision returns the final decision for a request whose waiting time has ended. If the app
// has not acquired the shard, the error response contains the app's reason.
func (wait *requestWait) expiredDecision(result decision) decision {
	waitedForAcquire := result.reason == route.ReasonAcquiring && result.code == ""
	if waitedForAcquire && !wait.exchange.mayHaveRun() {
		result.code, result.detail = problem.QueueTimeout, wait.detailNotAcquired()
	}
	return wait.exchange.failExpiredWait(result)
}

// detailNotAcquired returns the detail of the error response if the app of this node has not acquired
// the shard in time.
func (wait *requestWait) detailNotAcquired() string {
	detail := fmt.Sprintf("the app of node %s has not acquired shard %d%s in time", wait.server.options.Node, wait.exchange.shardInService(), wait.exchange.ofService())
	if wait.server.options.AcquireError == nil {
		return detail
	}
	if appError := wait.server.options.AcquireError(wait.exchange.shard); appError != "" {
		return detail + ": " + appError
	}
	return detail
}

// failExpiredWait returns the decision that ends a request whose waiting time has ended. It keeps
// the problem code of result. If there is none, the code follows from the reason for waiting.
func (exchange *exchange) failExpiredWait(result decision) decision {
	if exchange.mayHaveRun() {
		return fail(connErrorCode(exchange.lastRoute), detailMayHaveRun)
	}
	if result.code == "" {
		result.code, result.detail = describeExpiredWait(result)
	}
	result.action = actionFail
	return result
}

// describeExpiredWait returns the problem for a request that waited in vain, based on the reason
// for waiting and the owner's last refusal.
func describeExpiredWait(result decision) (code problem.Code, detail string) {
	detail = "no node served the shard in time: " + result.reason.String()
	switch {
	case result.refusal == route.RefusedNoLease, result.reason == route.ReasonNoMap, result.reason == route.ReasonNoLease:
		return problem.NoLeader, detail
	case result.refusal == route.RefusedNoApp:
		return problem.UpstreamRefused, "the app behind the shard's owner accepts no connections"
	case result.refusal == route.RefusedBusy:
		return problem.UpstreamBusy, ""
	case result.refusal == route.RefusedNotOwner && result.reason == route.ReasonRefused:
		return problem.QueueTimeout, "the node that owns the shard according to this node's map refused the request"
	}
	return problem.QueueTimeout, detail
}
