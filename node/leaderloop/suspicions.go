package leaderloop

import (
	"context"
	"time"

	"shardway/ack"
	"shardway/node/control"
)

const (
	// suspicionPause is the pause between two requests to check the same node.
	suspicionPause = 5 * time.Second
	// suspicionTimeout bounds one such request.
	suspicionTimeout = time.Second
)

// spreadSuspicions makes all nodes check the members that a heartbeat reports as unreachable. A node detects an owner
// that it cannot reach only by its own requests, and in a cluster with little traffic most nodes have none. Only the
// reports of most members exclude a node, so a wrong report costs one dial per node.
func (l *Loop) spreadSuspicions(ctx context.Context, heartbeat ack.Heartbeat) {
	for _, node := range heartbeat.Unreachable {
		isRecent := time.Since(l.suspicionsSpreadAt[node]) < suspicionPause
		if isRecent || !l.driver.State().Proposed().IsMember(node) {
			continue
		}
		l.suspicionsSpreadAt[node] = time.Now()
		l.options.CheckNode(string(node))
		l.options.Background.Go(func() {
			dialCtx, cancel := context.WithTimeout(ctx, suspicionTimeout)
			defer cancel()
			request := control.Request{Kind: control.CheckNode, Server: string(node)}
			control.Broadcast[any](dialCtx, l.options.Client, l.options.View.OtherAliveNodes(), request, nil)
		})
	}
}
