package adminapi

import (
	"cmp"
	"context"
	"slices"
	"time"

	"shardway/admin/api"
	"shardway/node/control"
	"shardway/node/router"
	"shardway/proxy"
	"shardway/queue"
)

// nodeRequestTimeout is the timeout for requesting a node's report.
const nodeRequestTimeout = time.Second

// Running collects the numbers of running requests of all nodes.
type Running struct {
	nodes          otherNodes
	version        string // of the program
	router         *router.Router
	proxy          *proxy.Server
	queue          *queue.Queue
	agent          Agent
	heldShardCount func() int // Options.HeldShardCount
	cache          *control.Cached[api.RunningList]
}

// RunningReport is the response of a node to a control.Running request: the numbers of its running
// requests, WebSockets, queued requests and held shards (Shardway-Hold), and its lease.
type RunningReport struct {
	Requests int    `json:"requests"`
	Sockets  int    `json:"sockets"`
	Waiting  int    `json:"waiting"`
	Held     int    `json:"held"`
	LeaseMS  int64  `json:"lease_ms"`
	Version  string `json:"version"`
	// Leaving is set if this process gives up its shards, because of API.DrainSelf or a signal.
	Leaving bool `json:"leaving"`
}

// newRunningReport returns a report in which all numbers are -1, which means unknown. Responses are decoded into
// it, because a node of an older version does not send all fields.
func newRunningReport() RunningReport {
	return RunningReport{Requests: -1, Sockets: -1, Waiting: -1, Held: -1, LeaseMS: -1}
}

// LocalReport returns the report of this node.
func (r *Running) LocalReport() RunningReport {
	requests, sockets := r.counts()
	return RunningReport{
		Requests: requests, Sockets: sockets, Waiting: r.queue.Stats().Waiting, Held: r.heldShardCount(),
		LeaseMS: leaseMilliseconds(r.router.LeaseLeft()), Version: r.version, Leaving: r.agent.IsLeaving(),
	}
}

// counts returns the number of requests that the app of this node is processing, and the number of upgraded
// connections.
func (r *Running) counts() (requests, sockets int) {
	return r.router.InFlight.Total(), r.proxy.CountUpgraded()
}

// leaseMilliseconds returns the remaining lease in milliseconds, rounded up because zero means no lease.
func leaseMilliseconds(left time.Duration) int64 {
	return max((left + time.Millisecond - 1).Milliseconds(), 0)
}

// Running asks all alive nodes for the numbers of their running requests, at most once in
// control.CacheTime. The result lists the nodes that did not respond in time.
func (r *Running) Running(ctx context.Context) api.RunningList {
	return r.cache.Get(ctx, nodeRequestTimeout, func(ctx context.Context) api.RunningList {
		return mergeRunning(queryNodes(ctx, r.nodes, control.Request{Kind: control.Running}, r.LocalReport, newRunningReport()))
	})
}

// mergeRunning merges the reports of all nodes.
func mergeRunning(reports map[string]RunningReport, unresponsive []string) api.RunningList {
	list := api.RunningList{Unresponsive: unresponsive}
	for node, report := range reports {
		list.Nodes = append(list.Nodes, api.Running{
			Node: node, Version: report.Version, LeaseMS: report.LeaseMS, Requests: report.Requests, Sockets: report.Sockets, Queued: report.Waiting, Held: report.Held,
		})
	}
	slices.SortFunc(list.Nodes, func(a, b api.Running) int { return cmp.Compare(a.Node, b.Node) })
	return list
}
