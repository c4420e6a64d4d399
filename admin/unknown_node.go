package admin

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// maxNamedNodes is the maximum number of node IDs in the error for an unknown node.
	maxNamedNodes = 16
	// maxNodeID is the maximum length of the unknown ID in the error, in bytes.
	maxNodeID = 64
)

// UnknownNode returns the error for a node that the cluster does not have. known has the IDs of
// its nodes, sorted. The error wraps ErrUnknownNode.
func UnknownNode(node string, known []string) error {
	names := strings.Join(known[:min(len(known), maxNamedNodes)], ", ")
	switch more := len(known) - maxNamedNodes; {
	case len(known) == 0:
		names = "no nodes yet"
	case more > 0:
		names += fmt.Sprintf(" and %d more (`shardway nodes` lists them)", more)
	}
	return fmt.Errorf("%w %q: the cluster has %s", ErrUnknownNode, node[:min(len(node), maxNodeID)], names)
}

// checkNode returns an error if the cluster has no node with this name. also has further accepted
// names, such as Serf members that are not nodes.
func (s *Server) checkNode(node string, also ...string) error {
	var known []string
	for _, n := range s.cluster.Status().Nodes {
		known = append(known, n.ID)
	}
	known = append(known, also...)
	slices.Sort(known)
	if known = slices.Compact(known); slices.Contains(known, node) {
		return nil
	}
	return UnknownNode(node, known)
}
