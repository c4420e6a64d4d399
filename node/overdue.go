package node

import (
	"context"
	"fmt"
	"time"

	"shardway/shardmap"
)

// overdueShare determines the time that a handler has to return after its request was aborted because
// the lease was lost: dead-after divided by overdueShare. The abort comes at 0.85 of dead-after. The
// remaining time allows for clocks that differ by a tenth.
const overdueShare = 20

// overdue detects handlers and hooks in this process that do not return (docs/internals/protocol-leases.md,
// An app in the node's process). Only the goroutine of agent.run uses it. For an app in another process
// it does nothing, because requests of such an app end with their connections.
type overdue struct {
	tell func(why error) // called with the error; nil means that the app is another process
	cut  time.Duration   // time at which the requests were aborted; zero means that there is nothing to check
}

// cutAt records that the requests were aborted at time now because the lease was lost.
func (o *overdue) cutAt(now time.Duration) {
	if o.tell != nil {
		o.cut = now
	}
}

// look reports requests or hooks that still run long after they were aborted. hooks is the number of
// running hooks. A new lease ends the check: the node gets no lease while requests run that may run
// on another node.
func (o *overdue) look(now, deadAfter time.Duration, leased bool, running *inflight, hooks int) {
	switch {
	case o.cut == 0:
	case leased:
		o.cut = 0
	case now-o.cut >= deadAfter/overdueShare:
		o.cut = 0
		if n := running.running(func(shardmap.Shard) bool { return false }); n+hooks > 0 {
			o.tell(fmt.Errorf("node: %d requests and %d hooks still run in the app %v after they were cut (ctx.Done): the lease is lost, and their shards may be served elsewhere", n, hooks, deadAfter/overdueShare))
		}
	}
}

// outlast calls end, which waits for the handlers or hooks in this process and aborts them when ctx
// ends. If end does not return soon after the end of ctx, outlast reports that.
func (o *overdue) outlast(ctx context.Context, deadAfter time.Duration, what string, end func()) {
	if o.tell == nil {
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
			o.tell(fmt.Errorf("node: %s still run in the app %v after they were cut (ctx.Done): the node is to end", what, grace))
		}
	})
	defer stop()
	end()
}

// shutProxy shuts the proxy down, which waits for what it runs, cut or not.
func (n *Node) shutProxy(ctx context.Context) (err error) {
	n.agent.overdue.outlast(ctx, n.timing().DeadAfter, "requests", func() { err = n.proxy.Shutdown(ctx) })
	return err
}
