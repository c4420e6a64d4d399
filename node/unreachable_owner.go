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
	// reachCheckEvery is the interval at which owners with stalled requests are checked.
	reachCheckEvery = 500 * time.Millisecond
	// ownerDialTimeout bounds one attempt to connect to an owner.
	ownerDialTimeout = time.Second
)

// abortToUnreachable aborts forwarded requests to owners that this node cannot reach for longer than
// DeadAfter. It runs until ctx ends. A node in the majority partition learns from a commit that the
// owner is excluded, and aborts such requests then (see orphanedForwards). A node in the minority
// partition sees no commit: without this check, its clients would wait for the timeout of TCP.
func (n *Node) abortToUnreachable(ctx context.Context) {
	t := n.pulse.Every(reachCheckEvery)
	defer t.Stop()
	unreachableSince := map[string]time.Time{} // the time since which a node is unreachable
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
				count := n.proxy.CancelForwarded(func(_ shardmap.Shard, owner string) bool { return owner == node })
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

// heardRecently reports whether data has just arrived on a mux session with the current process of a
// node. The mux layer sends pings on a session that is silent for longer and has streams. So this check
// saves the dials for long requests.
func (n *Node) heardRecently(node string) bool {
	isCurrent := func(conn net.Conn) bool {
		c, ok := conn.(*peer.Conn)
		return ok && n.diskRecords.isCurrentProcess(c.Peer())
	}
	return n.router.webSocketStreams.Outgoing.HeardFrom(node, isCurrent) || n.router.requestStreams.Outgoing.HeardFrom(node, isCurrent)
}

// isReachable reports whether the process of a node responds. A refusal is a response, too.
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
