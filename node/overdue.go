package node

import (
	"context"
	"fmt"
	"time"

	"shardway/shardmap"
)

// overdueShare is the part of dead-after that a handler has to return after its lease
// was lost and its request cut. The cut comes at 0.85 of it, and the rest is for clocks
// that differ by a tenth.
const overdueShare = 20

// overdue watches over handlers and hooks in this process that do not return (docs/internals/protocol-leases.md,
// An app in the node's process). It is the agent's, and idle for any other app, whose
// requests end with their connections.
type overdue struct {
	tell func(why error) // nil: the app is another process
	cut  time.Duration   // when what ran was cut; zero: nothing was, or it has ended
}

// cutAt notes that what runs has been cut because its lease is lost.
func (o *overdue) cutAt(now time.Duration) {
	if o.tell != nil {
		o.cut = now
	}
}

// look tells when something has gone on for too long: requests, or so many hooks. A lease that came back gives
// time again: the node holds none while anything runs that may run elsewhere.
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

// outlast runs end, which waits for what the app runs in this process and cuts it when
// ctx ends, and tells of it if it goes on a while after that.
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
