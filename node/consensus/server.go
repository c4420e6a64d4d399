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

// ServerOfNode returns the first of the server IDs that belongs to a node, or "".
func ServerOfNode(servers []string, node string) string {
	if index := slices.IndexFunc(servers, func(server string) bool { return NodeOf(server) == node }); index >= 0 {
		return servers[index]
	}
	return ""
}

// parseServerID splits a server ID into its node ID and its disk ID.
func parseServerID(id string) (node, disk string, err error) {
	node, disk, ok := strings.Cut(id, "/")
	if !ok || node == "" || disk == "" {
		return "", "", fmt.Errorf("consensus: server id %q, want node/disk", id)
	}
	return node, disk, nil
}

// fromLibrary converts a configuration of the Raft library.
func fromLibrary(configuration raft.Configuration) []Server {
	result := make([]Server, len(configuration.Servers))
	for i, server := range configuration.Servers {
		result[i] = Server{ID: string(server.ID), Voter: server.Suffrage == raft.Voter}
	}
	return result
}
