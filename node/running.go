package node

import (
	"cmp"
	"context"
	"slices"
	"time"

	"shardway/admin/api"
	"shardway/node/control"
	"shardway/shardmap"
)

const (
	// runningTimeout is how long a node has to tell what runs there.
	runningTimeout = time.Second
)

// runningThere is what a node tells of what it does at this moment.
type runningThere struct {
	Requests int    `json:"requests"`
	Sockets  int    `json:"sockets"`
	Waiting  int    `json:"waiting"`
	Held     int    `json:"held"`
	LeaseMS  int64  `json:"lease_ms"`
	Version  string `json:"version"`
	// Leaving: this process is to own nothing, as its machine or a signal has asked.
	Leaving bool `json:"leaving"`
}

// untold is what is known of a node that tells nothing; one of an older version leaves out
// what it does not know of.
func untold() runningThere {
	return runningThere{Requests: -1, Sockets: -1, Waiting: -1, Held: -1, LeaseMS: -1}
}

func (n *Node) runningHere() runningThere {
	requests, sockets := n.running()
	return runningThere{
		Requests: requests, Sockets: sockets, Waiting: n.room.Stats().Waiting, Held: n.heldShards(),
		LeaseMS: leaseMS(n.router.LeaseLeft()), Version: n.o.Version, Leaving: n.agent.leaving.Load(),
	}
}

// running counts what runs at this node's app.
func (n *Node) running() (requests, sockets int) {
	return n.router.running.running(func(shardmap.Shard) bool { return false }), n.proxy.CountUpgraded()
}

// leaseMS rounds up: what is left is not nothing.
func leaseMS(left time.Duration) int64 {
	return max((left + time.Millisecond - 1).Milliseconds(), 0)
}

// Running asks every node what it does, at most once in control.CacheTime.
func (n *Node) Running(ctx context.Context) api.RunningList {
	return n.census.Get(ctx, runningTimeout, n.queryRunning)
}

func (n *Node) queryRunning(ctx context.Context) api.RunningList {
	told, silent := control.Broadcast(ctx, n.client, n.aliveNodes(), control.Request{Kind: control.Running}, untold())
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
