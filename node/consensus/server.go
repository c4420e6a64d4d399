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
	// Voter is false for a server that only follows.
	Voter bool
}

// Node returns the node's id.
func (s Server) Node() string {
	node, _, _ := strings.Cut(s.ID, "/")
	return node
}

// Disk returns the id of the node's data directory.
func (s Server) Disk() string {
	_, disk, _ := strings.Cut(s.ID, "/")
	return disk
}

// ServerID returns the id of the server that node is with disk.
func ServerID(node, disk string) string { return node + "/" + disk }

// split is the reverse of ServerID.
func split(id string) (node, disk string, err error) {
	node, disk, ok := strings.Cut(id, "/")
	if !ok || node == "" || disk == "" {
		return "", "", fmt.Errorf("consensus: server id %q, want node/disk", id)
	}
	return node, disk, nil
}

// servers translates Raft's configuration.
func servers(c raft.Configuration) []Server {
	out := make([]Server, len(c.Servers))
	for i, s := range c.Servers {
		out[i] = Server{ID: string(s.ID), Voter: s.Suffrage == raft.Voter}
	}
	return out
}
