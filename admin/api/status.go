package api

import (
	"fmt"
	"strings"

	"shardway/diagnosis"
)

// Status is the response of GET /status: the view of one node.
type Status struct {
	Node     string `json:"node"`
	Boot     uint64 `json:"boot"`
	Cluster  string `json:"cluster"` // empty until the node belongs to one
	Version  string `json:"version"`
	State    string `json:"state"`  // starting, joining, unhealthy, operational, electing, rebalancing, draining, drained, stopping
	Role     string `json:"role"`   // leader, follower, candidate or gateway
	Leader   string `json:"leader"` // node id; empty while none is known
	Term     uint64 `json:"term"`
	Epoch    uint64 `json:"epoch"`    // of the committed map; 0 before the first
	Proposed uint64 `json:"proposed"` // of the last proposal in the log
	LeaseMS  int64  `json:"lease_ms"` // remaining lease; 0 without a lease
	UptimeS  int64  `json:"uptime_s"`

	// Timing has the cluster-wide settings; nil before the node belongs to a cluster.
	Timing *TimingState `json:"settings,omitempty"`

	// Keys is the active key configuration; nil before there is one.
	Keys *KeysState `json:"keys,omitempty"`

	// FormatVersion is the current format version as far as the node has been informed; see UpgradeState.
	FormatVersion uint8 `json:"format_version"`

	Shards ShardCounts `json:"shards"`
	Queue  QueueCounts `json:"queue"`
	// Sockets counts the long-lived connections of the responding node.
	Sockets SocketCounts `json:"websockets"`
	Nodes   []Node       `json:"nodes"` // sorted by id

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

// maxKeysNodes and maxKeysPending bound the nodes in each list, and the key configurations,
// that KeysState.String names.
const (
	maxKeysNodes   = 8
	maxKeysPending = 4
)

// String returns one line for people: digests are cut to 8 digits, lists to 8 nodes.
func (k *KeysState) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s since epoch %d", shortDigest(k.Digest), k.Since)
	if k.Changing {
		b.WriteString(", changing now")
	}
	for _, p := range k.Pending[:min(len(k.Pending), maxKeysPending)] {
		fmt.Fprintf(&b, "; %s loaded by %s", shortDigest(p.Digest), someNodes(p.Loaded))
		if len(p.Missing) > 0 {
			b.WriteString(", not by " + someNodes(p.Missing))
		}
	}
	return b.String()
}

func shortDigest(d string) string { return d[:min(len(d), 8)] }

// someNodes names up to 8 nodes.
func someNodes(nodes []string) string {
	text := strings.Join(nodes[:min(len(nodes), maxKeysNodes)], ", ")
	if more := len(nodes) - maxKeysNodes; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// ShardCounts has numbers of shards as the responding node sees them.
type ShardCounts struct {
	Total    int `json:"total"`
	Owned    int `json:"owned"` // by the answering node
	Held     int `json:"held"`  // of these, by the app: Shardway-Hold
	Moving   int `json:"moving"`
	Orphaned int `json:"orphaned"` // without an owner in the committed map
	// Unavailable counts the shards without service as far as the responding node has been informed:
	// all shards while it has no leader.
	Unavailable int `json:"unavailable"`
}

// QueueCounts has the number and the size of the queued requests of the responding node.
type QueueCounts struct {
	Queued int   `json:"queued"`
	Bytes  int64 `json:"bytes"`
}

// SocketCounts contains the numbers of long-lived connections of the responding node.
type SocketCounts struct {
	App int `json:"app"` // upgraded connections to its app
	// Attached and Detached count resumable WebSockets whose clients are connected to this node:
	// with a connection to their app, and without one.
	Attached int `json:"attached"`
	Detached int `json:"detached"`
	Streams  int `json:"streams"` // event streams of clients of this node that the next owner can continue
}

// Node is one node of the cluster.
type Node struct {
	ID         string            `json:"id"`
	State      string            `json:"state"` // joining, active, unhealthy (its app is, and it is not in the map), draining, drained, cordoned, absent, failed, left
	Role       string            `json:"role"`  // leader, follower or gateway
	Voter      bool              `json:"voter"`
	Weight     uint32            `json:"weight"`
	Zone       string            `json:"zone"`
	Shards     int               `json:"shards"`      // owned in the committed map
	Endpoints  map[string]string `json:"endpoints"`   // name without the prefix "ep." → address
	AppVersion string            `json:"app_version"` // as configured; may be empty
	App        string            `json:"app"`         // healthy, unhealthy, unknown, or none for a gateway
	// Unavailable is why the shards of the node have no service, as far as the responding node has been
	// informed. It is absent if they are served, or if the node owns none.
	Unavailable     string `json:"unavailable,omitempty"`
	LastHeartbeatMS int64  `json:"last_heartbeat_ms"` // since its last heartbeat reached the leader; -1 if unknown to the responding node
}

// NodeList is the response of GET /v1/nodes.
type NodeList struct {
	Leader string `json:"leader"`
	Epoch  uint64 `json:"epoch"`
	Nodes  []Node `json:"nodes"`
}
