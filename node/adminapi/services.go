package adminapi

import (
	"context"
	"slices"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/internal/problem"
	"shardway/node/leaderloop"
	"shardway/shardmap"
)

// Services lists the services of the cluster. The leader reports which nodes run them.
func (a *API) Services(ctx context.Context) api.ServiceList {
	return serviceList(a.options.Router.State(), a.options.Leader.Views(ctx))
}

// serviceList returns the services of a state. views is the leader's view of the nodes.
func serviceList(state *ack.State, views []leader.MemberView) api.ServiceList {
	list := api.ServiceList{Epoch: uint64(state.Committed().Epoch()), Services: []api.Service{}}
	unstarted := state.UnstartedServices()
	for _, service := range state.Services() {
		entry := api.Service{
			MapService: mapService(service), Started: !slices.Contains(unstarted, service), Configured: leaderloop.ConfiguresService(state, service.Name), Nodes: []string{}, Owners: map[string]int{},
		}
		for i := service.First; int(i) < service.End(); i++ {
			if owner := state.Committed().Owner(i); owner != "" {
				entry.Owners[string(owner)]++
			}
		}
		entry.Moving, entry.Orphaned = countService(state, service)
		for _, view := range views {
			_, runs := view.Heartbeat.ServiceReport(service)
			if runs && leaderloop.IsAlive(view) && !view.Heartbeat.Gateway && !view.Heartbeat.Goodbye {
				entry.Nodes = append(entry.Nodes, string(view.Node))
			}
		}
		slices.Sort(entry.Nodes)
		list.Services = append(list.Services, entry)
	}
	return list
}

// countService returns the number of shards of a service that move, and of those without an owner. A service that has
// not started has no orphaned shards.
func countService(state *ack.State, service ack.Service) (moving, orphaned int) {
	for i := service.First; int(i) < service.End(); i++ {
		if state.HasOpenProposal() && !state.Proposed().HasSameOwner(state.Committed(), i) {
			moving++
		}
	}
	return moving, state.OrphansOf(service)
}

// serviceCounts returns the numbers of shards of each service. nil means that the cluster has no list of services.
func serviceCounts(state *ack.State, self shardmap.NodeID) (counts []api.ServiceCounts) {
	if !state.HasServices() {
		return nil
	}
	for _, service := range state.Services() {
		entry := api.ServiceCounts{Name: service.Name, Total: service.Shards}
		for i := service.First; int(i) < service.End(); i++ {
			if state.Committed().Owner(i) == self {
				entry.Owned++
			}
		}
		entry.Moving, entry.Orphaned = countService(state, service)
		counts = append(counts, entry)
	}
	return counts
}

// mapService returns the range of a service in the form of the admin API.
func mapService(service ack.Service) api.MapService {
	return api.MapService{Name: service.Name, First: uint32(service.First), Shards: service.Shards}
}

// mapServices returns the ranges of the services. nil means that the cluster has no list of services.
func mapServices(state *ack.State) (services []api.MapService) {
	if !state.HasServices() {
		return nil
	}
	for _, service := range state.Services() {
		services = append(services, mapService(service))
	}
	return services
}

// serviceOfShard returns the service of a shard, and the number of the shard within it. The results are empty if the
// cluster has no list of services, or if the shard belongs to none.
func serviceOfShard(state *ack.State, shard shardmap.Shard) (name string, inService *uint32) {
	if !state.HasServices() {
		return "", nil
	}
	service, exists := state.ServiceOf(shard)
	if !exists {
		return "", nil
	}
	number := uint32(shard - service.First)
	return service.Name, &number
}

// ServiceOf returns the service of requests with this host and this path, by the active key configuration.
func (a *API) ServiceOf(host, path string) (string, error) {
	keys := a.options.Router.Table().Keys()
	if keys == nil {
		return "", problem.New(problem.NotReady, "the node does not know the key configuration of the cluster yet: ask again once /readyz is green")
	}
	name, invalid := keys.ServiceOf(host, path)
	if invalid != nil {
		return "", invalid
	}
	return name, nil
}
