package node

import (
	"context"
	"fmt"
	"time"

	"shardway/node/gossip"
)

const (
	twinEvery = time.Second
	// twinTimes is how often in a row a twin must be seen: after a quick restart
	// others may know the old address for a moment.
	twinTimes = 3
)

// lookForTwin finds another process with this node's id, until a leader has
// answered this one: with a disk of its own, or with a copy of this one's data
// directory. Heartbeats do not show it: the leader hears only servers that its
// Raft reaches, and it reaches the one that gossip knows.
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
		err := n.ask(asking, m.ID, request{What: askTwin, Nonce: n.nonce}, &addr)
		cancel()
		if err == nil {
			return addr
		}
		n.log.Debug().Err(err).Str("peer", m.ID).Msg("not told whether this node has a twin")
	}
	return ""
}

// twinOf looks whether a process with the id of node answers at the address known
// here that is not the one with this nonce. It returns that address, or "".
func (n *Node) twinOf(ctx context.Context, node string, nonce uint64) string {
	addr, ok := n.lookup(node)
	if !ok {
		return ""
	}
	var there whoami
	if err := n.ask(ctx, node, request{What: askWho}, &there); err != nil || there.Nonce == nonce {
		return ""
	}
	return fmt.Sprintf("%s (disk %s)", addr, there.Disk)
}

// whoami tells processes apart that have the same node id.
type whoami struct {
	Disk  string `json:"disk"`
	Nonce uint64 `json:"nonce"`
}
