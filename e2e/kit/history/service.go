package history

import (
	"strings"

	"github.com/cespare/xxhash/v2"
)

// ServiceMark separates the name of the service from the rest of a key, in tests with several services.
const ServiceMark = "~"

// Service is a service of the cluster, with its range of shards.
type Service struct {
	Name          string
	First, Shards int
}

// serviceOf returns the service of a key; ok is false if no service has the name in the key.
func serviceOf(key string, services []Service) (service Service, ok bool) {
	name, _, _ := strings.Cut(key, ServiceMark)
	for _, service := range services {
		if service.Name == name {
			return service, true
		}
	}
	return Service{}, false
}

// ShardOf returns the shard of a key by the published hash. With services, it is the number in the map of the
// cluster. shards is the number of shards of a cluster without services.
func ShardOf(key string, shards int, services []Service) uint32 {
	if len(services) == 0 {
		return uint32(xxhash.Sum64String(key) % uint64(shards))
	}
	service, ok := serviceOf(key, services)
	if !ok {
		return uint32(shards) // no such shard
	}
	return uint32(service.First) + uint32(xxhash.Sum64String(key)%uint64(service.Shards))
}

// CountInCluster returns a run whose shard counts in the map of the cluster. The app has recorded the shard
// within the service of its header.
func (r Run) CountInCluster(services []Service) Run {
	for _, service := range services {
		if service.Name == r.Service {
			r.Shard += uint32(service.First)
		}
	}
	return r
}

// checkService checks that a run has the service of its key, in its header and in its app.
func (rn *runChecker) checkService(run *Run) {
	if len(rn.rules.Services) == 0 {
		return
	}
	service, ok := serviceOf(run.Key, rn.rules.Services)
	if app := rn.rules.ServiceOfApp[run.App]; !ok || run.Service != service.Name || app != service.Name {
		rn.report.addViolation(WrongService, "%s, an app of %q, ran %s with key %q for service %q", run.App, app, run.ID, run.Key, run.Service)
	}
}

// cut returns the part of a map that belongs to a service.
func (m *Map) cut(service Service) Map {
	part := *m
	first := min(service.First, len(m.Owners))
	part.Owners = m.Owners[first:min(first+service.Shards, len(m.Owners))]
	return part
}

// checkServices checks how many shards of each service move between its apps.
func (ic *instanceChecker) checkServices(change *mapChange) {
	mayLeave := func(app string) bool { return ic.exclusions.mayLeave(app, change.next.At) }
	for _, service := range ic.rules.Services {
		before, next := change.before.cut(service), change.next.cut(service)
		moves := (&mapChange{before: &before, next: &next}).newSpread(func(app string) string { return app }, "")
		if moved, needed := moves.fromRemaining(mayLeave), moves.minimum(mayLeave); moved > needed {
			ic.report.addViolation(MovedNeedlessly, "%d shards of %s left apps without a fault in the map of epoch %d, and an even spread needs %d moves: %v", moved, service.Name, change.next.Epoch, needed, moves)
		}
	}
}
