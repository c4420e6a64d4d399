package admin

import (
	"fmt"
	"strings"

	"shardway/verdict"
)

// Status is the answer of GET /status: one node's view.
type Status struct {
	Node     string `json:"node"`
	Boot     uint64 `json:"boot"`
	Cluster  string `json:"cluster"` // empty until the node belongs to one
	Version  string `json:"version"`
	State    string `json:"state"`  // starting, joining, unhealthy, operational, electing, resharding, draining, drained, stopping
	Role     string `json:"role"`   // leader, follower, candidate or gateway
	Leader   string `json:"leader"` // node id; empty while none is known
	Term     uint64 `json:"term"`
	Epoch    uint64 `json:"epoch"`    // of the committed map; 0 before the first
	Proposed uint64 `json:"proposed"` // of the last proposal in the log
	LeaseMS  int64  `json:"lease_ms"` // what is left of the lease; 0 without one
	UptimeS  int64  `json:"uptime_s"`

	// Timing is the cluster's; nil before there is one.
	Timing *TimingState `json:"timing,omitempty"`

	// Keys is the active key configuration; nil before there is one.
	Keys *KeysState `json:"keys,omitempty"`

	// Level is the level in force as far as the node knows; see LevelState.
	Level uint8 `json:"level"`

	Shards ShardCounts `json:"shards"`
	Queue  QueueCounts `json:"queue"`
	// Sockets are the long-lived connections of the answering node.
	Sockets SocketCounts `json:"sockets"`
	Nodes   []Node       `json:"nodes"` // sorted by id

	// Findings say what is the matter as far as the node knows, the gravest first.
	Findings []verdict.Finding `json:"findings"`
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

// ShardCounts counts shards as the answering node sees them.
type ShardCounts struct {
	Total    int `json:"total"`
	Owned    int `json:"owned"` // by the answering node
	Held     int `json:"held"`  // of these, by the app: Shardway-Hold
	Moving   int `json:"moving"`
	Orphaned int `json:"orphaned"` // without an owner in the committed map
	// Unserved are those that nobody serves as far as the answering node knows: all, while
	// it knows of no leader.
	Unserved int `json:"unserved"`
}

// QueueCounts tells what waits at the answering node.
type QueueCounts struct {
	Waiting int   `json:"waiting"`
	Bytes   int64 `json:"bytes"`
}

// SocketCounts tells of sockets and streams that live long at the answering node.
type SocketCounts struct {
	App int `json:"app"` // upgraded connections to its app
	// Attached and Detached are WebSockets that their app lets be kept, whose clients are
	// connected here: with a connection to their app, and waiting for the next one.
	Attached int `json:"attached"`
	Detached int `json:"detached"`
	Streams  int `json:"streams"` // event streams of clients here that go on at the next owner
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
	Endpoints  map[string]string `json:"endpoints"`   // name without "ep." → address
	AppVersion string            `json:"app_version"` // what its operator calls it; may be empty
	App        string            `json:"app"`         // healthy, unhealthy, unknown, or none for a gateway
	// Unserved says why nobody serves what it owns, as far as the answering node knows;
	// left out: somebody does, or it owns nothing.
	Unserved string `json:"unserved,omitempty"`
	HeardMS  int64  `json:"heard_ms"` // since its last heartbeat reached the leader; -1: not known here
}

// NodeList is the answer of GET /v1/nodes.
type NodeList struct {
	Leader string `json:"leader"`
	Epoch  uint64 `json:"epoch"`
	Nodes  []Node `json:"nodes"`
}
