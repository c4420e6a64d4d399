package roster

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/node/gossip"
)

const (
	twinEvery = time.Second
	// twinTimes is how often in a row a twin must be seen: after a quick restart
	// others may know the old address for a moment.
	twinTimes = 3
)

// Twin finds another process with this node's id: with a disk of its own, or with a
// copy of this one's data directory. Heartbeats do not show it: the leader hears only
// servers that its Raft reaches, and it reaches the one that gossip knows.
type Twin struct{ o TwinOptions }

// TwinOptions is what a Twin is made from.
type TwinOptions struct {
	// Self is the node's id, Nonce its process's.
	Self   string
	Nonce  uint64
	Gossip Gossip
	Nodes  Witnesses
	// Answered reports that a leader has answered this process: it is the one.
	Answered func() bool
	// Lookup returns a node's peer address.
	Lookup func(node string) (addr string, ok bool)
	// Seen is told where another process is, Found that it is there for good.
	Seen, Found func(addr string)
	Log         zerolog.Logger
}

// Witnesses are the other nodes, as a Twin asks them.
type Witnesses interface {
	// Elsewhere asks a node whether another process than this one, with that nonce,
	// speaks under this one's id, and where; "" for nowhere.
	Elsewhere(ctx context.Context, node string, nonce uint64) (addr string, err error)
	// Who asks the process at a node's address which one it is.
	Who(ctx context.Context, node string) (Process, error)
}

// Process tells processes apart that have the same node id.
type Process struct {
	Disk  string `json:"disk"`
	Nonce uint64 `json:"nonce"`
	Boot  uint64 `json:"boot"`
	// Level is the highest one that its program knows.
	Level ack.Level `json:"level"`
}

// NewTwin returns the Twin of a node.
func NewTwin(o TwinOptions) *Twin { return &Twin{o: o} }

// Run looks until a leader has answered this process, a twin is found, or ctx ends.
func (t *Twin) Run(ctx context.Context) {
	tick := time.NewTicker(twinEvery)
	defer tick.Stop()
	for seen := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if t.o.Answered() {
			return
		}
		addr := t.ask(ctx)
		if addr == "" {
			seen = 0
			continue
		}
		t.o.Seen(addr)
		if seen++; seen >= twinTimes {
			t.o.Found(addr)
			return
		}
	}
}

// ask asks one other node, and returns where the other process is.
func (t *Twin) ask(ctx context.Context) string {
	for _, m := range t.o.Gossip.Members() {
		if !m.Node || m.ID == t.o.Self || m.Status != gossip.Alive {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, twinEvery)
		addr, err := t.o.Nodes.Elsewhere(asking, m.ID, t.o.Nonce)
		cancel()
		if err == nil {
			return addr
		}
		t.o.Log.Debug().Err(err).Str("peer", m.ID).Msg("not told whether this node has a twin")
	}
	return ""
}

// Of looks whether a process with the id of node answers at the address known here
// that is not the one with this nonce. It returns that address, or "".
func (t *Twin) Of(ctx context.Context, node string, nonce uint64) string {
	addr, ok := t.o.Lookup(node)
	if !ok {
		return ""
	}
	there, err := t.o.Nodes.Who(ctx, node)
	if err != nil || there.Nonce == nonce {
		return ""
	}
	return fmt.Sprintf("%s (disk %s)", addr, there.Disk)
}
