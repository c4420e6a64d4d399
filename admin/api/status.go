package api

import (
	"fmt"
	"strings"
	"time"

	"shardway/diagnosis"
)

// Status is the response of GET /status: the view of one node.
type Status struct {
	Node    string `json:"node"`    // id of the responding node
	Boot    uint64 `json:"boot"`    // incarnation: a counter that each process of the node increments
	Cluster string `json:"cluster"` // id of the cluster; empty until the node belongs to one
	Version string `json:"version"` // version of Shardway
	State   string `json:"state"`   // starting, joining, unhealthy, operational, electing, rebalancing, draining, drained, failed, stopping
	// ClusterState is the state of the whole cluster as this node sees it: initializing, single-node, stable,
	// rebalancing, degraded (a member has failed, or no further failure is tolerated) or unavailable. ClusterReason
	// is one sentence that explains it.
	ClusterState  string `json:"cluster_state"`
	ClusterReason string `json:"cluster_reason"`
	Role          string `json:"role"`   // leader, follower, candidate or gateway
	Leader        string `json:"leader"` // id of the leader; empty while none is known
	// LeaderSince is the time at which the leader was elected, by the clock of the responding node, and LeaderLeaseMS
	// how many milliseconds the leader may still grant leases unless a quorum confirms it again. They are absent if the
	// leader did not respond.
	LeaderSince   *time.Time `json:"leader_since,omitempty"`
	LeaderLeaseMS *int64     `json:"leader_lease_ms,omitempty"`
	Term          uint64     `json:"term"`     // Raft term
	Epoch         uint64     `json:"epoch"`    // epoch of the committed map; 0 before the first map
	Proposed      uint64     `json:"proposed"` // epoch of the last proposed map in the log
	LeaseMS       int64      `json:"lease_ms"` // remaining lease in milliseconds; 0 without a lease
	UptimeS       int64      `json:"uptime_s"` // seconds since the process started

	// Timing has the cluster-wide settings; nil before the node belongs to a cluster.
	Timing *TimingState `json:"settings,omitempty"`

	// Keys is the active key configuration; nil before there is one.
	Keys *KeysState `json:"keys,omitempty"`

	// FormatVersion is the current format version as far as the node has been informed; see UpgradeState.
	FormatVersion uint8 `json:"format_version"`

	Shards ShardCounts `json:"shards"` // numbers of shards
	// Services has the numbers of shards of each service. It is absent in a cluster without a list of services.
	Services []ServiceCounts `json:"services,omitempty"`
	Queue    QueueCounts     `json:"queue"`      // queued requests of the responding node
	Sockets  SocketCounts    `json:"websockets"` // long-lived connections of the responding node
	Nodes    []Node          `json:"nodes"`      // nodes of the cluster, sorted by id

	// Findings has the findings of the node, most severe first.
	Findings []diagnosis.Finding `json:"findings"`
}

// KeysState is the key configuration by which all nodes find the keys of requests.
type KeysState struct {
	Active   string        `json:"active"`   // in canonical form
	Digest   string        `json:"digest"`   // of Active, 16 hexadecimal digits
	Since    uint64        `json:"since"`    // epoch of the map with which it became active
	Changing bool          `json:"changing"` // another one is about to become active
	Pending  []PendingKeys `json:"pending"`  // other key configurations that nodes have loaded
}

// PendingKeys is a key configuration that nodes have loaded and that is not active yet.
type PendingKeys struct {
	Digest  string   `json:"digest"`  // 16 hexadecimal digits
	Loaded  []string `json:"loaded"`  // nodes that have loaded it, sorted
	Missing []string `json:"missing"` // nodes that have not loaded it, or do not answer, sorted
}

// Limits on the text of KeysState.String.
const (
	maxKeysNodes   = 8 // nodes in each list
	maxKeysPending = 4 // pending key configurations
	maxDigestLen   = 8 // digits of a digest
)

// String returns one line for operators. It shortens digests and lists.
func (k *KeysState) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s since epoch %d", shortDigest(k.Digest), k.Since)
	if k.Changing {
		b.WriteString(", changing now")
	}
	for _, pending := range k.Pending[:min(len(k.Pending), maxKeysPending)] {
		fmt.Fprintf(&b, "; %s loaded by %s", shortDigest(pending.Digest), firstNodes(pending.Loaded))
		if len(pending.Missing) > 0 {
			b.WriteString(", not by " + firstNodes(pending.Missing))
		}
	}
	return b.String()
}

func shortDigest(digest string) string { return digest[:min(len(digest), maxDigestLen)] }

// firstNodes lists up to maxKeysNodes nodes, and the number of the others.
func firstNodes(nodes []string) string {
	text := strings.Join(nodes[:min(len(nodes), maxKeysNodes)], ", ")
	if more := len(nodes) - maxKeysNodes; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// ShardCounts contains numbers of shards as the responding node sees them.
type ShardCounts struct {
	Total    int `json:"total"`    // all shards of the cluster
	Owned    int `json:"owned"`    // owned by the responding node
	Held     int `json:"held"`     // owned by the responding node and held by its app (Shardway-Hold)
	Moving   int `json:"moving"`   // with another owner in the proposed map
	Orphaned int `json:"orphaned"` // without an owner in the committed map, of services that have started
	// Unavailable counts the shards whose owner does not serve them, as far as the responding node has
	// been informed. While the node knows no leader, it counts all shards.
	Unavailable int `json:"unavailable"`
}

// QueueCounts contains the number and the size of the queued requests of the responding node.
type QueueCounts struct {
	Queued int   `json:"queued"` // number of requests
	Bytes  int64 `json:"bytes"`  // total size of the requests
}

// SocketCounts contains the numbers of long-lived connections of the responding node.
type SocketCounts struct {
	App      int `json:"app"`      // upgraded connections to the app of this node
	Attached int `json:"attached"` // resumable WebSockets of clients of this node that have a connection to their app
	Detached int `json:"detached"` // resumable WebSockets of clients of this node that wait for a connection to their app
	Streams  int `json:"streams"`  // event streams of clients of this node that the next owner can continue
}

// Node is one node of the cluster.
type Node struct {
	ID         string            `json:"id"`          // id of the node
	State      string            `json:"state"`       // joining, active, unhealthy (its app is unhealthy, so it is not in the map), draining, drained, cordoned, restarting, suspect (the leader misses its heartbeats, and its shards stay), failed, left
	Role       string            `json:"role"`        // leader, follower or gateway
	Voter      bool              `json:"voter"`       // has a vote in Raft elections
	Weight     uint32            `json:"weight"`      // share of the shards, relative to the other nodes
	Zone       string            `json:"zone"`        // failure zone; empty if none is configured
	Region     string            `json:"region"`      // region; empty if none is configured
	Roles      []string          `json:"roles"`       // roles that the operator has given to it, sorted
	Meta       map[string]string `json:"meta"`        // metadata that the operator has given to it
	Version    string            `json:"version"`     // version of Shardway; empty if unknown
	Shards     int               `json:"shards"`      // number of shards that it owns in the committed map
	Endpoints  map[string]string `json:"endpoints"`   // name without the prefix "ep." → address
	AppVersion string            `json:"app_version"` // version of its app, as configured; may be empty
	App        string            `json:"app"`         // healthy, unhealthy, unknown, or none for a gateway
	// Unavailable is why the node does not serve its shards, as far as the responding node has been
	// informed. It is absent if the node serves them, or owns none.
	Unavailable     string `json:"unavailable,omitempty"`
	LastHeartbeatMS int64  `json:"last_heartbeat_ms"` // milliseconds since its last heartbeat reached the leader; -1 if unknown to the responding node
	// Instances are its app instances, in the order of their numbers. It is absent for a node with one
	// instance.
	Instances []Instance `json:"instances,omitempty"`
}

// Instance is an app instance of a node.
type Instance struct {
	Number int    `json:"number"` // from 1 on
	State  string `json:"state"`  // active, unhealthy, recovering (it failed repeatedly and gets no shards yet), draining, drained, removed (no longer configured), unknown (the node does not respond)
	Shards int    `json:"shards"` // number of shards that it owns in the committed map
}

// NodeList is the response of GET /v1/nodes.
type NodeList struct {
	Leader string `json:"leader"` // id of the leader; empty while none is known
	Epoch  uint64 `json:"epoch"`  // epoch of the committed map
	Nodes  []Node `json:"nodes"`  // sorted by id
}
