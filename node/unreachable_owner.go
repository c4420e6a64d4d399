package node

import (
	"context"
	"errors"
	"net"
	"time"

	"shardway/peer"
	"shardway/shardmap"
)

const (
	reachCheckEvery  = 500 * time.Millisecond
	ownerDialTimeout = time.Second
)

// dropUnreachable finds owners that this node has forwarded requests to and cannot
// reach any more. A commit that drops such an owner frees its requests on the
// majority's side; a node that is cut off itself sees no commit, and without this
// its clients would wait as long as TCP does.
func (n *Node) abortToUnreachable(ctx context.Context) {
	t := n.pulse.Every(reachCheckEvery)
	defer t.Stop()
	unreachableSince := map[string]time.Time{} // since when a node is not reached
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		stalled := map[string]bool{}
		for _, node := range n.proxy.Stalled() {
			stalled[node] = true
			began := time.Now()
			if n.heardRecently(node) || n.isReachable(ctx, node) {
				delete(unreachableSince, node)
			} else if unreachableSince[node].IsZero() {
				unreachableSince[node] = began
			} else if time.Since(unreachableSince[node]) > n.timing().DeadAfter {
				count := n.proxy.Abandon(func(_ shardmap.Shard, owner string) bool { return owner == node })
				n.log.Warn().Str("peer", node).Int("requests", count).Msg("forwarded requests aborted, owner unreachable")
			}
		}
		for node := range unreachableSince {
			if !stalled[node] {
				delete(unreachableSince, node)
			}
		}
	}
}

// hears reports whether something has come just now by a trunk to a node's present process. What
// goes by one that is silent for longer is given pings, so this saves the dials for what stays.
func (n *Node) heardRecently(node string) bool {
	isCurrent := func(conn net.Conn) bool {
		c, ok := conn.(*peer.Conn)
		return ok && n.diskRecords.isCurrentProcess(c.Peer())
	}
	return n.router.webSocketStreams.set.HeardFrom(node, isCurrent) || n.router.requestStreams.set.HeardFrom(node, isCurrent)
}

// reaches reports whether a node's process answers, be it with a refusal.
func (n *Node) isReachable(ctx context.Context, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, ownerDialTimeout)
	defer cancel()
	c, err := n.port.Dial(ctx, node, peer.Control)
	if err == nil {
		closeStream(c)
		return true
	}
	var refused *peer.RefusedError
	return errors.As(err, &refused)
}
