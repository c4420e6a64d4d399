package node

import (
	"slices"
	"strings"
)

// servers returns the ids of Raft's servers, the latest configuration in the own
// log: those that vote and the others.
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

// serverID is the Raft server id of a node with a disk.
func serverID(node, disk string) string { return node + "/" + disk }

// nodeOf returns the node of a Raft server id.
func nodeOf(server string) string {
	node, _, _ := strings.Cut(server, "/")
	return node
}

// serverOf returns the server of a node, or "".
func serverOf(servers []string, node string) string {
	if i := slices.IndexFunc(servers, func(s string) bool { return nodeOf(s) == node }); i >= 0 {
		return servers[i]
	}
	return ""
}
