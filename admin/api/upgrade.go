package api

import "context"

// UpgradeState is the response of GET and POST /v1/upgrade. A format version is the version of the
// messages between nodes and of the log entries; see docs/internals/protocol.md.
type UpgradeState struct {
	// CurrentVersion is the current format version. Next is the format version that comes next, or the same number if no
	// node supports a higher one, as far as the responding node has been informed.
	CurrentVersion uint8 `json:"in_force"`
	Next           uint8 `json:"next"`
	// Wait is the remaining time, such as "59m30s", for which all nodes must support Next before the
	// leader raises the format version automatically. Empty means that there is no higher one.
	Wait string `json:"wait,omitempty"`
	// Behind contains the nodes that block Next, and the remedy. Empty means that no node does.
	Behind string `json:"behind,omitempty"`
	// Nodes has the nodes of the Raft configuration, sorted. It is empty if no leader responded.
	Nodes []NodeUpgrade `json:"nodes"`
}

// NodeUpgrade is the highest format version that a node supports, as reported to the leader.
type NodeUpgrade struct {
	Node             string `json:"node"`
	MaxFormatVersion uint8  `json:"knows"` // the highest format version that the node supports; 0 means no report to this leader
	HasHeartbeat     bool   `json:"heard"`
	BlocksUpgrade    bool   `json:"blocks"` // the next format version waits for this node
}

// UpgradeService serves /v1/upgrade.
type UpgradeService interface {
	UpgradeStatus(ctx context.Context) UpgradeState
	// FinalizeUpgrade raises the format version without waiting for --finalize-after. Its errors are those of
	// Cluster.Do. An error that wraps ErrRefused contains the nodes that block the upgrade.
	FinalizeUpgrade(ctx context.Context, by string) (UpgradeState, error)
}
