package membership

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/node/gossip"
)

const (
	// duplicateInterval is the interval between two checks, and the timeout of one.
	duplicateInterval = time.Second
	// duplicateThreshold is the number of consecutive detections before a duplicate is reported. After
	// a quick restart other nodes may have the old address for a moment.
	duplicateThreshold = 3
)

// DuplicateDetector detects another process with the ID of this node, which has another disk or a
// copy of the data directory. Heartbeats do not show it: the leader only receives heartbeats of
// servers that its Raft reaches, and Raft uses the address in gossip.
type DuplicateDetector struct{ options DuplicateOptions }

// DuplicateOptions configure a DuplicateDetector.
type DuplicateOptions struct {
	// Self is the ID of the node, and Nonce the nonce of its process.
	Self   string
	Nonce  uint64
	Gossip Gossip
	Nodes  DuplicatePeers
	// IsAnswered reports whether a leader has answered this process, which makes it the valid one.
	IsAnswered func() bool
	// Lookup returns the peer address of a node.
	Lookup func(node string) (addr string, ok bool)
	// OnDetection is called at each detection, and OnDuplicate once the duplicate is certain. addr is the address
	// of the other process.
	OnDetection, OnDuplicate func(addr string)
	Log                      zerolog.Logger
}

// DuplicatePeers sends requests of a DuplicateDetector to other nodes.
type DuplicatePeers interface {
	// FindElsewhere asks a node whether it can reach a process with the ID of this node and another
	// nonce. It returns the address of this process, or "".
	FindElsewhere(ctx context.Context, node string, nonce uint64) (addr string, err error)
	// RequestIdentity requests the identity of the process at the address of a node.
	RequestIdentity(ctx context.Context, node string) (Process, error)
}

// Process identifies a process among those with the same node ID.
type Process struct {
	Disk  string `json:"disk"`
	Nonce uint64 `json:"nonce"`
	Boot  uint64 `json:"boot"`
	// Level is the highest format version that it supports.
	Level ack.FormatVersion `json:"level"`
}

// NewDuplicateDetector returns the DuplicateDetector of a node.
func NewDuplicateDetector(options DuplicateOptions) *DuplicateDetector {
	return &DuplicateDetector{options: options}
}

// Run checks until a leader has answered this process, a duplicate is certain, or ctx ends.
func (d *DuplicateDetector) Run(ctx context.Context) {
	ticker := time.NewTicker(duplicateInterval)
	defer ticker.Stop()
	for detections := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if d.options.IsAnswered() {
			return
		}
		addr := d.queryPeer(ctx)
		if addr == "" {
			detections = 0
			continue
		}
		d.options.OnDetection(addr)
		if detections++; detections >= duplicateThreshold {
			d.options.OnDuplicate(addr)
			return
		}
	}
}

// queryPeer asks the other nodes in turn, until one responds. It returns the address of another
// process with the ID of this node, or "".
func (d *DuplicateDetector) queryPeer(ctx context.Context) string {
	for _, member := range d.options.Gossip.Members() {
		if !member.Node || member.ID == d.options.Self || member.Status != gossip.Alive {
			continue
		}
		callCtx, cancel := context.WithTimeout(ctx, duplicateInterval)
		addr, err := d.options.Nodes.FindElsewhere(callCtx, member.ID, d.options.Nonce)
		cancel()
		if err == nil {
			return addr
		}
		d.options.Log.Debug().Err(err).Str("peer", member.ID).Msg("no response about duplicate nodes")
	}
	return ""
}

// Probe handles the question of another node whether a process with its ID and another nonce
// exists. It connects to the address that this node has for it, and returns the address of the
// other process, or "".
func (d *DuplicateDetector) Probe(ctx context.Context, node string, nonce uint64) string {
	addr, ok := d.options.Lookup(node)
	if !ok {
		return ""
	}
	process, err := d.options.Nodes.RequestIdentity(ctx, node)
	if err != nil || process.Nonce == nonce {
		return ""
	}
	return fmt.Sprintf("%s (disk %s)", addr, process.Disk)
}
