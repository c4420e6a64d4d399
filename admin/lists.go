package admin

import (
	"net/http"
	"slices"

	"shardway/admin/api"
	"shardway/shardmap"
)

// status responds with the status of the node: a page for browsers, and otherwise JSON.
func (s *Server) status(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	status := s.api.Cluster.Status()
	status.Nodes, status.Findings = s.setUnavailable(cloneNodes(status.Nodes)), nonNil(status.Findings)
	w.Header().Set("Vary", "Accept")
	if !prefersHTML(r.Header.Values("Accept")) {
		return writeJSON(w, status)
	}
	s.page.write(w, http.StatusOK, s.page.render(viewOf(status)))
	return nil
}

// setUnavailable sets Unavailable of each owner in nodes, and returns nodes.
func (s *Server) setUnavailable(nodes []api.Node) []api.Node {
	for i := range nodes {
		if n := &nodes[i]; n.Shards > 0 {
			n.Unavailable = s.api.Cluster.Idle(n.ID)
		}
	}
	return nodes
}

func (s *Server) nodes(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	status := s.api.Cluster.Status()
	return writeJSON(w, api.NodeList{Leader: status.Leader, Epoch: status.Epoch, Nodes: s.setUnavailable(cloneNodes(status.Nodes))})
}

// shards responds with the list of shards. The parameters node and state select shards.
func (s *Server) shards(w http.ResponseWriter, r *http.Request) error {
	values, err := query(r, "service", "node", "state")
	if err != nil {
		return err
	}
	list := s.api.Cluster.Shards()
	rows := nonNil(list.Shards)
	if values.has("node") {
		rows, err = s.shardsOf(values.get("node"), rows)
		if err != nil {
			return err
		}
	}
	if values.has("service") {
		shardMap := s.api.Cluster.Map()
		service, err := findService(&shardMap, values.get("service"))
		if err != nil {
			return err
		}
		end := service.First + uint32(service.Shards)
		rows = filterRows(rows, func(x api.Shard) bool { return x.Shard >= service.First && x.Shard < end })
	}
	if state := values.get("state"); values.has("state") {
		states := []string{api.ShardOwned, api.ShardMoving, api.ShardOrphaned}
		if !slices.Contains(states, state) {
			return badParam("state", state, "is not a shard state: "+allowedNames(states))
		}
		rows = filterRows(rows, func(x api.Shard) bool { return x.State == state })
	}
	list.Shards = rows
	return writeJSON(w, list)
}

// shardsOf returns the rows of the shards that a node, or an app instance NODE/INSTANCE, owns or will own. An
// empty node selects the orphaned shards.
func (s *Server) shardsOf(node string, rows []api.Shard) ([]api.Shard, error) {
	if node == "" {
		return filterRows(rows, func(x api.Shard) bool { return x.Owner == "" }), nil
	}
	id, instance, isInstance := shardmap.ParseInstance(shardmap.NodeID(node))
	isOwner := func(owner string, number int) bool {
		return owner == string(id) && (!isInstance || number == instance.Number())
	}
	rows = filterRows(rows, func(x api.Shard) bool { return isOwner(x.Owner, x.Instance) || isOwner(x.To, x.ToInstance) })
	if len(rows) == 0 {
		return rows, s.checkNode(string(id))
	}
	return rows, nil
}

// filterRows returns the rows for which keep returns true, in a new slice, because rows belongs to
// the node.
func filterRows[T any](rows []T, keep func(T) bool) []T {
	picked := make([]T, 0, len(rows))
	for _, x := range rows {
		if keep(x) {
			picked = append(picked, x)
		}
	}
	return picked
}

// nonNil returns rows, or an empty slice if rows is nil, so that JSON shows [] and not null.
func nonNil[T any](rows []T) []T {
	if rows == nil {
		return []T{}
	}
	return rows
}

// cloneNodes returns a copy of nodes in which no list or map is nil.
func cloneNodes(nodes []api.Node) []api.Node {
	nodes = slices.Clone(nonNil(nodes))
	for i := range nodes {
		if nodes[i].Endpoints == nil {
			nodes[i].Endpoints = map[string]string{}
		}
	}
	return nodes
}
