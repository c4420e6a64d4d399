package admin

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// maxNamedNodes is how many nodes the error for an unknown one names.
	maxNamedNodes = 16
	// maxNodeID is how many bytes of a name that is unknown are repeated.
	maxNodeID = 64
)

// UnknownNode returns the error for a node that the cluster does not have; known are the ids of
// those that it has, in order. It wraps ErrUnknownNode.
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

// checkNode returns an error if the cluster has no node of that name; also are further names
// that are known, such as members of gossip that are no nodes.
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
