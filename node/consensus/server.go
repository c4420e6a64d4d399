package consensus

import (
	"fmt"
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
	node, _, _ := strings.Cut(s.ID, "/")
	return node
}

// Disk returns the disk ID of the data directory.
func (s Server) Disk() string {
	_, disk, _ := strings.Cut(s.ID, "/")
	return disk
}

// ServerID returns the server ID of a node with a disk.
func ServerID(node, disk string) string { return node + "/" + disk }

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
