package node

import (
	"context"
	"fmt"
	"time"

	"shardway/node/router"
)

// overdueShare determines how long a handler may take to return after its request was aborted: dead-after
// divided by overdueShare. If the lease was lost, requests are aborted at 0.85 of dead-after. The
// remaining time allows for clocks that differ by a tenth.
const overdueShare = 20

// overdueDetector detects handlers and hooks in this process that do not return after they were aborted
// (docs/internals/protocol-takeovers.md, An app in the node's process). Only the goroutine of agent.run uses it.
// For an app in another process it does nothing, because requests of such an app end with their connections.
type overdueDetector struct {
	// report is Options.Overdue. It receives an error that names the requests and hooks that still run. It is nil
	// if the app runs in another process.
	report func(why error)
	// abortedAt is the time at which the requests were aborted because the lease was lost. Zero means that
	// no check is pending.
	abortedAt time.Duration
}

// recordAbort records that the requests were aborted at time now because the lease was lost.
func (o *overdueDetector) recordAbort(now time.Duration) {
	if o.report != nil {
		o.abortedAt = now
	}
}

// isCheckPending reports whether the agent must continue to call check.
func (o *overdueDetector) isCheckPending() bool { return o.abortedAt != 0 }

// check calls report if requests or hooks still run deadAfter/overdueShare after they were aborted. inFlight
// counts the requests, and runningHooks is the number of hooks. A lease (hasLease) ends the check: the
// node gets none while it runs requests of shards that another node may serve.
func (o *overdueDetector) check(now, deadAfter time.Duration, hasLease bool, inFlight *router.InFlight, runningHooks int) {
	if !o.isCheckPending() {
		return
	}
	if hasLease {
		o.abortedAt = 0
		return
	}
	timeToReturn := deadAfter / overdueShare
	if now-o.abortedAt < timeToReturn {
		return
	}
	o.abortedAt = 0
	if runningRequests := inFlight.Total(); runningRequests+runningHooks > 0 {
		o.report(fmt.Errorf("node: %d requests and %d hooks still run in the app %v after they were cut (ctx.Done): the lease is lost, and their shards may be served elsewhere", runningRequests, runningHooks, timeToReturn))
	}
}

// waitFor calls wait and returns when wait has returned. wait must abort the handlers or hooks in this process
// when ctx ends, and return after the last of them. If wait has not returned deadAfter/overdueShare after the
// end of ctx, waitFor calls report. subject names the handlers or hooks in that error.
func (o *overdueDetector) waitFor(ctx context.Context, deadAfter time.Duration, subject string, wait func()) {
	if o.report == nil {
		wait()
		return
	}
	timeToReturn := deadAfter / overdueShare
	waitReturned := make(chan struct{})
	defer close(waitReturned)
	stopWatching := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(timeToReturn)
		defer timer.Stop()
		select {
		case <-waitReturned:
		case <-timer.C:
			o.report(fmt.Errorf("node: %s still run in the app %v after they were cut (ctx.Done): the node is to end", subject, timeToReturn))
		}
	})
	defer stopWatching()
	wait()
}

// shutProxy shuts the proxy down, and returns when all its requests have ended. When ctx ends, the proxy aborts the
// requests, but still waits for their handlers, so handlers in this process that do not return are reported, see
// waitFor.
func (n *Node) shutProxy(ctx context.Context) (err error) {
	n.agent.overdue.waitFor(ctx, n.view.Timing().DeadAfter, "requests", func() { err = n.proxy.Shutdown(ctx) })
	return err
}
