package node

import (
	"context"
	"time"

	"shardway/ack"
	"shardway/node/apphealth"
	"shardway/proxy"
)

// Apply replaces the settings of the proxy. The clients' requests that come from
// now on go by them.
func (n *Node) Apply(set proxy.Settings) { n.proxy.Apply(set) }

// ApplyHealth replaces how the app is checked, from the next check on.
func (n *Node) ApplyHealth(set apphealth.Settings) {
	if n.health != nil {
		n.health.SetSettings(set)
	}
}

// lameDuck goes on taking connections until the time as a lame duck, which began
// when the node stopped being ready, is over: who spreads load has noticed then.
func (n *Node) lameDuck(ctx context.Context, began time.Time) {
	if n.o.LameDuck == nil {
		return
	}
	left := time.NewTimer(n.o.LameDuck() - time.Since(began))
	defer left.Stop()
	select {
	case <-left.C:
	case <-ctx.Done():
	}
}

// appHealth returns what the node's heartbeats contain about its app, in addition to whether it is healthy.
func (n *Node) appHealth() ack.AppHealth {
	if n.health == nil {
		return ack.AppHealth{}
	}
	return n.health.Report()
}
