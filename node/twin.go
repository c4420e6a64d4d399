package node

import (
	"context"
	"fmt"
	"time"

	"shardway/node/gossip"
	"shardway/peer"
)

const (
	twinEvery = time.Second
	// twinTimes is how often in a row a twin must be seen: after a quick restart
	// others may know the old address for a moment.
	twinTimes = 3
)

// lookForTwin finds another process with this node's id and another disk, until
// a leader has answered this one. Heartbeats do not show it: the leader hears
// only servers of its configuration, and a second disk is none.
func (n *Node) lookForTwin(ctx context.Context) {
	t := time.NewTicker(twinEvery)
	defer t.Stop()
	for seen := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if n.agent.answered.Load() != 0 {
			return
		}
		addr := n.askForTwin(ctx)
		if addr == "" {
			seen = 0
			continue
		}
		n.agent.elsewhere.Store(&addr)
		if seen++; seen >= twinTimes {
			select {
			case n.agent.duplicate <- addr:
			default:
			}
			return
		}
	}
}

// askForTwin asks one other node, and returns where the other process is.
func (n *Node) askForTwin(ctx context.Context) string {
	for _, m := range n.gossip.Members() {
		if !m.Node || m.ID == string(n.self) || m.Status != gossip.Alive {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, twinEvery)
		var addr string
		err := n.ask(asking, m.ID, request{What: askTwin, Server: n.server}, &addr)
		cancel()
		if err == nil {
			return addr
		}
		n.log.Debug().Err(err).Str("peer", m.ID).Msg("not told whether this node has a twin")
	}
	return ""
}

// twinOf looks whether a process with the id of node, but another disk than
// server's, answers at the address known here. It returns that address, or "".
func (n *Node) twinOf(ctx context.Context, node, server string) string {
	addr, ok := n.lookup(node)
	if !ok {
		return ""
	}
	c, err := n.port.Dial(ctx, node, peer.Control)
	if err != nil {
		return ""
	}
	defer hangUp(c)
	if serverID(node, c.Peer().Disk) == server {
		return ""
	}
	return fmt.Sprintf("%s (disk %s)", addr, c.Peer().Disk)
}
