package admin

import (
	"bytes"
	"net/http"
	"slices"
)

func (s *Server) status(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	st := s.cluster.Status()
	st.Nodes = withEndpoints(st.Nodes)
	w.Header().Set("Vary", "Accept")
	if !prefersHTML(r.Header.Values("Accept")) {
		return writeJSON(w, st)
	}
	var b bytes.Buffer
	if err := s.page.Execute(&b, st); err != nil {
		return err
	}
	write(w, "text/html; charset=utf-8", b.Bytes())
	return nil
}

func (s *Server) nodes(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	st := s.cluster.Status()
	return writeJSON(w, NodeList{Leader: st.Leader, Epoch: st.Epoch, Nodes: withEndpoints(st.Nodes)})
}

func (s *Server) shards(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "node")
	if err != nil {
		return err
	}
	list := s.cluster.Shards()
	rows := present(list.Shards)
	if node := q.str("node"); q.has("node") {
		// What moves to a node is its concern as much as what it has. An empty
		// name asks for the orphans.
		rows = pick(rows, func(x Shard) bool { return x.Owner == node || node != "" && x.To == node })
	}
	list.Shards = rows
	return writeJSON(w, list)
}

func (s *Server) endpoints(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r, "node", "name")
	if err != nil {
		return err
	}
	rows := pick(s.cluster.Endpoints(), func(e Endpoint) bool {
		return (!q.has("node") || e.Node == q.str("node")) && (!q.has("name") || e.Name == q.str("name"))
	})
	return writeJSON(w, EndpointList{Endpoints: rows})
}

// pick returns the rows that keep says yes to, in a slice of its own: rows
// belong to the node.
func pick[T any](rows []T, keep func(T) bool) []T {
	picked := make([]T, 0, len(rows))
	for _, x := range rows {
		if keep(x) {
			picked = append(picked, x)
		}
	}
	return picked
}

// present makes a list that JSON shows as [], never as null.
func present[T any](rows []T) []T {
	if rows == nil {
		return []T{}
	}
	return rows
}

// withEndpoints is present for nodes, whose endpoints JSON shows as {} likewise.
func withEndpoints(nodes []Node) []Node {
	nodes = slices.Clone(present(nodes))
	for i := range nodes {
		if nodes[i].Endpoints == nil {
			nodes[i].Endpoints = map[string]string{}
		}
	}
	return nodes
}
