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
	reachEvery = 500 * time.Millisecond
	reachLimit = time.Second
)

// dropUnreachable finds owners that this node has forwarded requests to and cannot
// reach any more. A commit that drops such an owner frees its requests on the
// majority's side; a node that is cut off itself sees no commit, and without this
// its clients would wait as long as TCP does.
func (n *Node) dropUnreachable(ctx context.Context) {
	t := n.pulse.Every(reachEvery)
	defer t.Stop()
	lost := map[string]time.Time{} // since when a node is not reached
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
			if n.hears(node) || n.reaches(ctx, node) {
				delete(lost, node)
			} else if lost[node].IsZero() {
				lost[node] = began
			} else if time.Since(lost[node]) > n.timing().DeadAfter {
				count := n.proxy.Abandon(func(_ shardmap.Shard, owner string) bool { return owner == node })
				n.log.Warn().Str("peer", node).Int("requests", count).Msg("forwarded requests aborted, owner unreachable")
			}
		}
		for node := range lost {
			if !stalled[node] {
				delete(lost, node)
			}
		}
	}
}

// hears reports whether something has come just now by a trunk to a node's present process. What
// goes by one that is silent for longer is given pings, so this saves the dials for what stays.
func (n *Node) hears(node string) bool {
	present := func(conn net.Conn) bool {
		c, ok := conn.(*peer.Conn)
		return ok && n.acquaintance.present(c.Peer())
	}
	return n.router.webSocketStreams.set.HeardFrom(node, present) || n.router.requestStreams.set.HeardFrom(node, present)
}

// reaches reports whether a node's process answers, be it with a refusal.
func (n *Node) reaches(ctx context.Context, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	c, err := n.port.Dial(ctx, node, peer.Control)
	if err == nil {
		hangUp(c)
		return true
	}
	var refused *peer.RefusedError
	return errors.As(err, &refused)
}
