package route

import (
	"math/rand/v2"

	"shardway/shardmap"
)

// DefaultService is the name of the only service of a cluster without a list of services.
const DefaultService = "default"

// Service is the range of shards of a service.
type Service struct {
	Name   string
	First  shardmap.Shard // first shard of the range
	Shards int            // number of shards of the range; at least 1
}

// setServices sets the ranges of the services. nil means that the cluster has one service.
func (t *Table) setServices(list []Service) {
	if list == nil {
		return
	}
	t.services = make(map[string]Service, len(list))
	for _, service := range list {
		if int(service.First)+service.Shards <= len(t.routeIndex) {
			t.services[service.Name] = service
		}
	}
}

// HasServices reports whether the cluster has a list of services.
func (t *Table) HasServices() bool { return t.services != nil }

// Service returns the range of a service. An empty name stands for DefaultService: the key configuration
// then has no services. ok is false if the cluster does not have the service yet.
func (t *Table) Service(name string) (service Service, ok bool) {
	if t.services == nil {
		isDefault := name == "" || name == DefaultService
		return Service{Name: DefaultService, Shards: len(t.routeIndex)}, isDefault && len(t.routeIndex) > 0
	}
	if name == "" {
		name = DefaultService
	}
	service, ok = t.services[name]
	return service, ok
}

// ShardOf returns the shard of a key of a service. The table must have shards. ok is false if the cluster
// does not have the service yet. See Table.Service for the name.
func (t *Table) ShardOf(name string, key []byte) (shard shardmap.Shard, ok bool) {
	if t.services == nil && name == "" {
		return shardmap.ShardOfBytes(key, len(t.routeIndex)), true
	}
	service, ok := t.Service(name)
	if !ok {
		return 0, false
	}
	return service.First + shardmap.ShardOfBytes(key, service.Shards), true
}

// RandomRemoteShard returns a random shard of a service that another node serves, with its route, for a
// request that any app of the service may answer. If other nodes serve no shard, it returns any shard, so
// the caller must check the Kind of the route. The table must have the service.
func (t *Table) RandomRemoteShard(name string) (shardmap.Shard, *Route) {
	service, _ := t.Service(name)
	offset := rand.IntN(service.Shards) //nolint:gosec // for load distribution, not a secret
	s := service.First
	for i := range service.Shards {
		if s = service.First + shardmap.Shard((offset+i)%service.Shards); t.Route(s).Kind == Remote {
			break
		}
	}
	return s, t.Route(s)
}
