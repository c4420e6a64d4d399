package node

import (
	"slices"
	"strings"
)

// servers returns the IDs of Raft's servers in the latest configuration in the log of this node. others are
// the servers that do not vote.
func (n *Node) servers() (voters, others []string) {
	for _, s := range n.raft.Configuration() {
		if s.Voter {
			voters = append(voters, s.ID)
		} else {
			others = append(others, s.ID)
		}
	}
	return voters, others
}

// serverID returns the Raft server ID of a node with a disk. The disk is the random ID of the data
// directory: a node that starts with an empty data directory is a new server, because it has forgotten its
// votes.
func serverID(node, disk string) string { return node + "/" + disk }

// nodeOf returns the node of a Raft server ID.
func nodeOf(server string) string {
	node, _, _ := strings.Cut(server, "/")
	return node
}

// serverOf returns the first of servers that belongs to a node, or "".
func serverOf(servers []string, node string) string {
	if i := slices.IndexFunc(servers, func(s string) bool { return nodeOf(s) == node }); i >= 0 {
		return servers[i]
	}
	return ""
}
