package adminapi

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

// RunningReport is the response of a node to a control.Running request: the numbers of its running
// requests, WebSockets, queued requests and held shards (see appHolds), and its lease.
type RunningReport struct {
	Requests int    `json:"requests"`
	Sockets  int    `json:"sockets"`
	Waiting  int    `json:"waiting"`
	Held     int    `json:"held"`
	LeaseMS  int64  `json:"lease_ms"`
	Version  string `json:"version"`
	// Leaving means that this process gives up its shards, because of DrainSelf or a signal.
	Leaving bool `json:"leaving"`
}

// unknownRunning returns the initial value of a response, in which -1 means unknown. A node of an older version
// does not send all fields.
func unknownRunning() RunningReport {
	return RunningReport{Requests: -1, Sockets: -1, Waiting: -1, Held: -1, LeaseMS: -1}
}

// LocalRunning returns the report of this node.
func (a *API) LocalRunning() RunningReport {
	requests, sockets := a.Counts()
	return RunningReport{
		Requests: requests, Sockets: sockets, Waiting: a.o.Queue.Stats().Waiting, Held: a.o.HeldShards(),
		LeaseMS: leaseMS(a.o.Router.LeaseLeft()), Version: a.o.Version, Leaving: a.o.Agent.IsLeaving(),
	}
}

// Counts returns the number of requests that run at the app of this node, and the number of upgraded
// connections.
func (a *API) Counts() (requests, sockets int) {
	return a.o.Router.InFlight.Total(), a.o.Proxy.CountUpgraded()
}

// leaseMS returns the rest of a lease in milliseconds. It rounds up, because zero means no lease.
func leaseMS(left time.Duration) int64 {
	return max((left + time.Millisecond - 1).Milliseconds(), 0)
}

// Running asks all alive nodes for the numbers of their running requests, at most once in
// control.CacheTime. The result lists the nodes that did not respond in time.
func (a *API) Running(ctx context.Context) api.RunningList {
	return a.runningCache.Get(ctx, runningTimeout, a.queryRunning)
}

// queryRunning does the same as Running, without the cache.
func (a *API) queryRunning(ctx context.Context) api.RunningList {
	told, silent := control.Broadcast(ctx, a.o.Client, a.o.View.OtherAliveNodes(), control.Request{Kind: control.Running}, unknownRunning())
	told[string(a.o.Self)] = a.LocalRunning()
	list := api.RunningList{Unresponsive: silent}
	for node, x := range told {
		list.Nodes = append(list.Nodes, api.Running{
			Node: node, Version: x.Version, LeaseMS: x.LeaseMS, Requests: x.Requests, Sockets: x.Sockets, Queued: x.Waiting, Held: x.Held,
		})
	}
	slices.SortFunc(list.Nodes, func(a, b api.Running) int { return cmp.Compare(a.Node, b.Node) })
	return list
}
