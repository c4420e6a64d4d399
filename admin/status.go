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
	Active   string   `json:"active"`   // in canonical form
	Digest   string   `json:"digest"`   // of Active, 16 hexadecimal digits
	Since    uint64   `json:"since"`    // epoch of the map with which it became active
	Changing bool     `json:"changing"` // another one is about to become active
	Pending  []string `json:"pending"`  // nodes that have loaded another one, sorted
}

// maxPending bounds the nodes that KeysState.String names.
const maxPending = 8

// String is one line for people: the begin of the digest, and up to 8 nodes of Pending.
func (k *KeysState) String() string {
	text := fmt.Sprintf("%s since epoch %d", k.Digest[:min(len(k.Digest), 8)], k.Since)
	if k.Changing {
		text += ", changing now"
	}
	if len(k.Pending) > 0 {
		text += ", another one loaded by " + strings.Join(k.Pending[:min(len(k.Pending), maxPending)], ", ")
	}
	if more := len(k.Pending) - maxPending; more > 0 {
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
