package admin

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"time"

	"shardway/admin/api"
	"shardway/internal/problem"
)

// Limits on long polls of endpoints.
const (
	// endpointPollInterval is the interval at which a long poll checks for a change of the endpoints.
	endpointPollInterval = 200 * time.Millisecond
	// maxEndpointPolls is the maximum number of concurrent long polls, and maxEndpointPollsPerSource the
	// maximum for one source.
	maxEndpointPolls          = 64
	maxEndpointPollsPerSource = 32
)

// endpoints responds with the announced addresses. The parameters node and name select addresses. With
// ?watch=VERSION it first waits, up to ?wait=, until the selected addresses differ from those of that version.
func (s *Server) endpoints(w http.ResponseWriter, r *http.Request) error {
	values, err := query(r, "node", "name", "watch", "wait")
	if err != nil {
		return err
	}
	wait, err := values.waitTime(defaultWait)
	if err != nil {
		return err
	}
	if values.has("wait") && !values.has("watch") {
		return missing("watch", "wait requires the version that you already have, as in ?watch=0123456789abcdef&wait=30s; an empty version differs from all others")
	}
	list, all := s.selectedEndpoints(values)
	if values.has("watch") {
		if list, err = s.awaitEndpoints(w, r, values, min(wait, api.MaxWait)); err != nil {
			return err
		}
	} else if len(list.Endpoints) == 0 && values.has("node") {
		var members []string
		for _, e := range all {
			members = append(members, e.Node)
		}
		if err := s.checkNode(values.get("node"), members...); err != nil {
			return err
		}
	}
	return writeJSON(w, list)
}

// selectedEndpoints returns the endpoints that the parameters node and name select, and all endpoints.
func (s *Server) selectedEndpoints(values params) (list api.EndpointList, all []api.Endpoint) {
	all = s.api.Cluster.Endpoints()
	list.Endpoints = filterRows(all, func(e api.Endpoint) bool {
		matchesNode := !values.has("node") || e.Node == values.get("node")
		matchesName := !values.has("name") || e.Name == values.get("name")
		return matchesNode && matchesName
	})
	list.Version = versionOf(list.Endpoints)
	return list, all
}

// awaitEndpoints returns the same list as selectedEndpoints, after its version differs from the parameter watch, or
// wait has passed.
func (s *Server) awaitEndpoints(w http.ResponseWriter, r *http.Request, values params, wait time.Duration) (api.EndpointList, error) {
	if !s.endpointPolls.Acquire(r.RemoteAddr) {
		return api.EndpointList{}, &problem.Problem{Code: problem.NotReady, Detail: "too many clients wait for endpoints: ask another node, or try again", RetryAfter: time.Second}
	}
	defer s.endpointPolls.Release(r.RemoteAddr)
	// If this fails, the shorter default timeout applies.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + writeTimeout))
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	ticker := time.NewTicker(endpointPollInterval)
	defer ticker.Stop()
	for isLast := false; ; {
		if s.access.Load() != admissionOf(r).access {
			return api.EndpointList{}, problem.New(problem.NotReady, "other people may read now: ask again")
		}
		if list, _ := s.selectedEndpoints(values); isLast || list.Version != values.get("watch") {
			return list, nil
		}
		select {
		case <-ticker.C:
		case <-timeout.C:
			isLast = true
		case <-r.Context().Done():
			return api.EndpointList{}, problem.New(problem.NotReady, "the node is stopping: ask another one")
		}
	}
}

// versionOf returns the version of a list of endpoints. Equal lists have equal versions on all nodes.
func versionOf(endpoints []api.Endpoint) string {
	hash := fnv.New64a()
	for _, e := range endpoints {
		_, _ = fmt.Fprintf(hash, "%q %q %q %q\n", e.Node, e.Kind, e.Name, e.Addr) // never fails
	}
	return fmt.Sprintf("%016x", hash.Sum64())
}
