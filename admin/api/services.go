package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// MapService is the range of shards of a service in a Map. The shard of a key in the service is the hash of the
// key modulo Shards, and its index in Map.Owners is First plus this number.
type MapService struct {
	Name   string `json:"name"`
	First  uint32 `json:"first"` // first shard of the range
	Shards int    `json:"shards"`
}

// Service is a service in the response of GET /v1/services.
type Service struct {
	MapService
	// Configured is true if the active key configuration names the service.
	Configured bool `json:"configured"`
	// Started is true if a shard of the service has an owner, or has had one.
	Started bool `json:"started"`
	// Nodes has the nodes that run the service, sorted. It is empty if no leader responded.
	Nodes []string `json:"nodes"`
	// Owners has the number of shards of each owner, by node.
	Owners   map[string]int `json:"owners"`
	Moving   int            `json:"moving"`   // shards with another owner in the proposed map
	Orphaned int            `json:"orphaned"` // shards without an owner in the committed map; 0 before the service has started
}

// ServiceList is the response of GET /v1/services.
type ServiceList struct {
	Epoch    uint64    `json:"epoch"`    // of the committed map
	Services []Service `json:"services"` // ascending by First
}

// DrainWarning returns the warning for a drain of a node that is the last one to run a service, or "". Nodes for
// which isLeaving returns true do not count.
func (l ServiceList) DrainWarning(node string, isLeaving func(node string) bool) string {
	services := l.OnlyRunBy(node, isLeaving)
	if len(services) == 0 {
		return ""
	}
	return fmt.Sprintf("node %[1]q is the last node that runs %[2]s: these shards get no owner, so their requests fail until another node runs the service, or until you uncordon node %[1]q", node, strings.Join(services, ", "))
}

// OnlyRunBy returns the services that the node runs, and no other node except those for which isLeaving returns true.
func (l ServiceList) OnlyRunBy(node string, isLeaving func(node string) bool) (names []string) {
	isOther := func(other string) bool { return other != node && !isLeaving(other) }
	for i := range l.Services {
		service := &l.Services[i]
		if slices.Contains(service.Nodes, node) && !slices.ContainsFunc(service.Nodes, isOther) {
			names = append(names, service.Name)
		}
	}
	return names
}

// ServiceCounts contains the numbers of shards of one service in a Status.
type ServiceCounts struct {
	Name     string `json:"name"`
	Total    int    `json:"total"`
	Owned    int    `json:"owned"`    // owned by the responding node
	Moving   int    `json:"moving"`   // with another owner in the proposed map
	Orphaned int    `json:"orphaned"` // without an owner in the committed map; 0 before the service has started
}

// ServiceLister serves /v1/services, and finds the services of requests.
type ServiceLister interface {
	// Services lists the services. A cluster without a list of services has the service default.
	Services(ctx context.Context) ServiceList
	// ServiceOf returns the service of requests with this host and this path, by the rules of the proxy. The
	// error is a *problem.Problem.
	ServiceOf(host, path string) (string, error)
}
