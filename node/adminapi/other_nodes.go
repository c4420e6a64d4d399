package adminapi

import (
	"context"

	"shardway/node/cluster"
	"shardway/node/control"
)

// otherNodes sends requests to all other alive nodes.
type otherNodes struct {
	self   string
	view   *cluster.View
	client *control.Client
}

// queryNodes sends a request to all other alive nodes. It returns the reports, including ownReport, by node. Each
// report is decoded into a copy of blank. unresponsive contains the nodes that did not respond before ctx ended,
// sorted.
func queryNodes[R any](ctx context.Context, nodes otherNodes, request control.Request, ownReport func() R, blank R) (reports map[string]R, unresponsive []string) {
	reports, unresponsive = control.Broadcast(ctx, nodes.client, nodes.view.OtherAliveNodes(), request, blank)
	reports[nodes.self] = ownReport()
	return reports, unresponsive
}
