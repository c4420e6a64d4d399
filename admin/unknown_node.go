package admin

import (
	"slices"

	"shardway/admin/api"
)

// checkNode returns an error if the cluster has no node with this name. also has further accepted
// names, such as Serf members that are not nodes.
func (s *Server) checkNode(node string, also ...string) error {
	var known []string
	for _, n := range s.api.Cluster.Status().Nodes {
		known = append(known, n.ID)
	}
	known = append(known, also...)
	slices.Sort(known)
	if known = slices.Compact(known); slices.Contains(known, node) {
		return nil
	}
	return api.UnknownNode(node, known)
}
