package node

import (
	"cmp"
	"context"
	"slices"
	"time"

	"shardway/admin/api"
	"shardway/node/control"
)

const (
	// runningTimeout is the timeout of the request for the report of a node.
	runningTimeout = time.Second
)

// runningThere is the response of a node to a control.Running request: the numbers of its running
// requests, WebSockets, queued requests and held shards (see appHolds), and its lease.
type runningThere struct {
	Requests int    `json:"requests"`
	Sockets  int    `json:"sockets"`
	Waiting  int    `json:"waiting"`
	Held     int    `json:"held"`
	LeaseMS  int64  `json:"lease_ms"`
	Version  string `json:"version"`
	// Leaving means that this process gives up its shards, because of DrainSelf or a signal.
	Leaving bool `json:"leaving"`
}

// untold returns the initial value of a response, in which -1 means unknown. A node of an older version
// does not send all fields.
func untold() runningThere {
	return runningThere{Requests: -1, Sockets: -1, Waiting: -1, Held: -1, LeaseMS: -1}
}

// runningHere returns the report of this node.
func (n *Node) runningHere() runningThere {
	requests, sockets := n.running()
	return runningThere{
		Requests: requests, Sockets: sockets, Waiting: n.room.Stats().Waiting, Held: n.heldShards(),
		LeaseMS: leaseMS(n.router.LeaseLeft()), Version: n.o.Version, Leaving: n.agent.leaving.Load(),
	}
}

// running returns the number of requests that run at the app of this node, and the number of upgraded
// connections.
func (n *Node) running() (requests, sockets int) {
	return n.router.InFlight.Total(), n.proxy.CountUpgraded()
}

// leaseMS returns the rest of a lease in milliseconds. It rounds up, because zero means no lease.
func leaseMS(left time.Duration) int64 {
	return max((left + time.Millisecond - 1).Milliseconds(), 0)
}

// Running asks all alive nodes for the numbers of their running requests, at most once in
// control.CacheTime. The result lists the nodes that did not respond in time.
func (n *Node) Running(ctx context.Context) api.RunningList {
	return n.census.Get(ctx, runningTimeout, n.queryRunning)
}

// queryRunning does the same as Running, without the cache.
func (n *Node) queryRunning(ctx context.Context) api.RunningList {
	told, silent := control.Broadcast(ctx, n.client, n.view.OtherAliveNodes(), control.Request{Kind: control.Running}, untold())
	told[string(n.self)] = n.runningHere()
	list := api.RunningList{Unresponsive: silent}
	for node, x := range told {
		list.Nodes = append(list.Nodes, api.Running{
			Node: node, Version: x.Version, LeaseMS: x.LeaseMS, Requests: x.Requests, Sockets: x.Sockets, Queued: x.Waiting, Held: x.Held,
		})
	}
	slices.SortFunc(list.Nodes, func(a, b api.Running) int { return cmp.Compare(a.Node, b.Node) })
	return list
}
