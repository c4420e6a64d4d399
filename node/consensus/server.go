package consensus

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
)

// Server is a member of the Raft configuration.
type Server struct {
	// ID is "node/disk".
	ID string
	// Voter is false for a server that only replicates the log.
	Voter bool
}

// Node returns the node ID.
func (s Server) Node() string {
	return NodeOf(s.ID)
}

// Disk returns the disk ID of the data directory.
func (s Server) Disk() string {
	_, disk, _ := strings.Cut(s.ID, "/")
	return disk
}

// ServerID returns the server ID of a node with a disk.
func ServerID(node, disk string) string { return node + "/" + disk }

// NodeOf returns the node of a Raft server ID.
func NodeOf(server string) string {
	node, _, _ := strings.Cut(server, "/")
	return node
}

// ServerOf returns the first of ids (server IDs) that belongs to a node, or "".
func ServerOf(ids []string, node string) string {
	if i := slices.IndexFunc(ids, func(s string) bool { return NodeOf(s) == node }); i >= 0 {
		return ids[i]
	}
	return ""
}

// split splits a server ID into its node ID and its disk ID.
func split(id string) (node, disk string, err error) {
	node, disk, ok := strings.Cut(id, "/")
	if !ok || node == "" || disk == "" {
		return "", "", fmt.Errorf("consensus: server id %q, want node/disk", id)
	}
	return node, disk, nil
}

// servers converts a configuration of the library.
func servers(c raft.Configuration) []Server {
	out := make([]Server, len(c.Servers))
	for i, s := range c.Servers {
		out[i] = Server{ID: string(s.ID), Voter: s.Suffrage == raft.Voter}
	}
	return out
}
