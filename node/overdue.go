package node

import (
	"context"
	"fmt"
	"time"

	"shardway/node/router"
)

// overdueShare determines the time that a handler has to return after its request was aborted because
// the lease was lost: dead-after divided by overdueShare. The abort comes at 0.85 of dead-after. The
// remaining time allows for clocks that differ by a tenth.
const overdueShare = 20

// overdueDetector detects handlers and hooks in this process that do not return (docs/internals/protocol-leases.md,
// An app in the node's process). Only the goroutine of agent.run uses it. For an app in another process
// it does nothing, because requests of such an app end with their connections.
type overdueDetector struct {
	// report is Options.Overdue. It receives an error that names the requests and hooks that still run.
	// nil means that the app runs in another process.
	report func(why error)
	// abortedAt is the time at which the requests were aborted because the lease was lost. Zero means that
	// there is nothing to check.
	abortedAt time.Duration
}

// recordAbort records that the requests were aborted at time now because the lease was lost.
func (o *overdueDetector) recordAbort(now time.Duration) {
	if o.report != nil {
		o.abortedAt = now
	}
}

// check calls report if requests or hooks still run deadAfter/overdueShare after they were aborted. running
// counts the requests, and hooks is the number of running hooks. leased reports whether the node has a
// lease. A new lease ends the check, because the node gets no lease while it runs requests of shards
// that another node may serve.
func (o *overdueDetector) check(now, deadAfter time.Duration, leased bool, running *router.InFlight, hooks int) {
	switch {
	case o.abortedAt == 0:
	case leased:
		o.abortedAt = 0
	case now-o.abortedAt >= deadAfter/overdueShare:
		o.abortedAt = 0
		if n := running.Total(); n+hooks > 0 {
			o.report(fmt.Errorf("node: %d requests and %d hooks still run in the app %v after they were cut (ctx.Done): the lease is lost, and their shards may be served elsewhere", n, hooks, deadAfter/overdueShare))
		}
	}
}

// waitFor calls end, and returns after end has returned. end must wait for the handlers or hooks in this
// process, and must abort them when ctx ends. If end has not returned deadAfter/overdueShare after the
// end of ctx, waitFor calls report. what names the handlers or hooks in the error.
func (o *overdueDetector) waitFor(ctx context.Context, deadAfter time.Duration, what string, end func()) {
	if o.report == nil {
		end()
		return
	}
	grace := deadAfter / overdueShare
	ended := make(chan struct{})
	defer close(ended)
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
			o.report(fmt.Errorf("node: %s still run in the app %v after they were cut (ctx.Done): the node is to end", what, grace))
		}
	})
	defer stop()
	end()
}

// shutProxy shuts the proxy down, and returns when all its requests have ended. When ctx ends, the proxy
// aborts the requests, but still waits for their handlers. So handlers in this process that do not return
// are reported, see waitFor.
func (n *Node) shutProxy(ctx context.Context) (err error) {
	n.agent.overdue.waitFor(ctx, n.view.Timing().DeadAfter, "requests", func() { err = n.proxy.Shutdown(ctx) })
	return err
}
