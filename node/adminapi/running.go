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
	// nodeRequestTimeout is the timeout of the request for the report of a node.
	nodeRequestTimeout = time.Second
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

// newRunningReport returns a report in which all numbers are -1, which means unknown. Responses are decoded into
// it, because a node of an older version does not send all fields.
func newRunningReport() RunningReport {
	return RunningReport{Requests: -1, Sockets: -1, Waiting: -1, Held: -1, LeaseMS: -1}
}

// LocalRunning returns the report of this node.
func (a *API) LocalRunning() RunningReport {
	requests, sockets := a.Counts()
	return RunningReport{
		Requests: requests, Sockets: sockets, Waiting: a.options.Queue.Stats().Waiting, Held: a.options.HeldShardCount(),
		LeaseMS: leaseMilliseconds(a.options.Router.LeaseLeft()), Version: a.options.Version, Leaving: a.options.Agent.IsLeaving(),
	}
}

// Counts returns the number of requests that run at the app of this node, and the number of upgraded
// connections.
func (a *API) Counts() (requests, sockets int) {
	return a.options.Router.InFlight.Total(), a.options.Proxy.CountUpgraded()
}

// leaseMilliseconds returns the rest of a lease in milliseconds. It rounds up, because zero means no lease.
func leaseMilliseconds(left time.Duration) int64 {
	return max((left + time.Millisecond - 1).Milliseconds(), 0)
}

// Running asks all alive nodes for the numbers of their running requests, at most once in
// control.CacheTime. The result lists the nodes that did not respond in time.
func (a *API) Running(ctx context.Context) api.RunningList {
	return a.runningCache.Get(ctx, nodeRequestTimeout, a.queryRunning)
}

// queryRunning does the same as Running, without the cache.
func (a *API) queryRunning(ctx context.Context) api.RunningList {
	reports, unresponsive := control.Broadcast(ctx, a.options.Client, a.options.View.OtherAliveNodes(), control.Request{Kind: control.Running}, newRunningReport())
	reports[string(a.options.Self)] = a.LocalRunning()
	list := api.RunningList{Unresponsive: unresponsive}
	for node, report := range reports {
		list.Nodes = append(list.Nodes, api.Running{
			Node: node, Version: report.Version, LeaseMS: report.LeaseMS, Requests: report.Requests, Sockets: report.Sockets, Queued: report.Waiting, Held: report.Held,
		})
	}
	slices.SortFunc(list.Nodes, func(a, b api.Running) int { return cmp.Compare(a.Node, b.Node) })
	return list
}
