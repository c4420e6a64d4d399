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
	duplicateInterval = time.Second
	// twinTimes is how often in a row a twin must be seen: after a quick restart
	// others may know the old address for a moment.
	duplicateThreshold = 3
)

// Twin finds another process with this node's id: with a disk of its own, or with a
// copy of this one's data directory. Heartbeats do not show it: the leader hears only
// servers that its Raft reaches, and it reaches the one that gossip knows.
type DuplicateDetector struct{ o DuplicateOptions }

// TwinOptions is what a Twin is made from.
type DuplicateOptions struct {
	// Self is the node's id, Nonce its process's.
	Self   string
	Nonce  uint64
	Gossip Gossip
	Nodes  DuplicatePeers
	// Answered reports that a leader has answered this process: it is the one.
	Answered func() bool
	// Lookup returns a node's peer address.
	Lookup func(node string) (addr string, ok bool)
	// Seen is told where another process is, Found that it is there for good.
	OnSeen, OnFound func(addr string)
	Log             zerolog.Logger
}

// Witnesses are the other nodes, as a Twin asks them.
type DuplicatePeers interface {
	// Elsewhere asks a node whether another process than this one, with that nonce,
	// speaks under this one's id, and where; "" for nowhere.
	FindElsewhere(ctx context.Context, node string, nonce uint64) (addr string, err error)
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
func NewDuplicateDetector(o DuplicateOptions) *DuplicateDetector { return &DuplicateDetector{o: o} }

// Run looks until a leader has answered this process, a twin is found, or ctx ends.
func (d *DuplicateDetector) Run(ctx context.Context) {
	tick := time.NewTicker(duplicateInterval)
	defer tick.Stop()
	for seen := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if d.o.Answered() {
			return
		}
		addr := d.askPeer(ctx)
		if addr == "" {
			seen = 0
			continue
		}
		d.o.OnSeen(addr)
		if seen++; seen >= duplicateThreshold {
			d.o.OnFound(addr)
			return
		}
	}
}

// ask asks one other node, and returns where the other process is.
func (d *DuplicateDetector) askPeer(ctx context.Context) string {
	for _, m := range d.o.Gossip.Members() {
		if !m.Node || m.ID == d.o.Self || m.Status != gossip.Alive {
			continue
		}
		callCtx, cancel := context.WithTimeout(ctx, duplicateInterval)
		addr, err := d.o.Nodes.FindElsewhere(callCtx, m.ID, d.o.Nonce)
		cancel()
		if err == nil {
			return addr
		}
		d.o.Log.Debug().Err(err).Str("peer", m.ID).Msg("not told whether this node has a twin")
	}
	return ""
}

// Of looks whether a process with the id of node answers at the address known here
// that is not the one with this nonce. It returns that address, or "".
func (d *DuplicateDetector) Probe(ctx context.Context, node string, nonce uint64) string {
	addr, ok := d.o.Lookup(node)
	if !ok {
		return ""
	}
	there, err := d.o.Nodes.Who(ctx, node)
	if err != nil || there.Nonce == nonce {
		return ""
	}
	return fmt.Sprintf("%s (disk %s)", addr, there.Disk)
}
