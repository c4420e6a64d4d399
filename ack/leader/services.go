package leader

import (
	"maps"
	"slices"

	"shardway/ack"
	"shardway/shardmap"
)

// serviceRunners determines which nodes run which service, and which of them may own its shards. It
// is unused as long as the cluster has no list of services, and no node reports services.
type serviceRunners struct {
	inUse bool
	// health is the combined health of the apps of each service, by its ID.
	health map[uint64]*clusterAppHealth
	// owned contains, by service ID, the app instances that own a shard of the service in the map ownedIn.
	owned   map[uint64]map[shardmap.NodeID]shardmap.InstanceSet
	ownedIn *shardmap.Map
	list    []ack.Service // for which owned was computed
}

// update computes the combined health of the apps of each service. The caller must call it once in each
// step, before other decisions.
func (sr *serviceRunners) update(in inputs, nodes *memberTracker) {
	sr.inUse = in.state.HasServices() || nodes.anyReportsServices()
	if !sr.inUse {
		return
	}
	sr.updateOwned(in)
	services := map[uint64]bool{}
	for _, service := range sr.list {
		services[service.ID] = true
		if sr.health[service.ID] == nil {
			setKey(&sr.health, service.ID, &clusterAppHealth{})
		}
		sr.health[service.ID].update(in, nodes, func(node *member) (app appStatus, runs bool) {
			return sr.appStatus(in, node, service)
		})
	}
	maps.DeleteFunc(sr.health, func(id uint64, _ *clusterAppHealth) bool { return !services[id] })
}

// anyReportsServices reports whether a node runs configured services.
func (mt *memberTracker) anyReportsServices() bool {
	for _, node := range mt.byID {
		if node.heartbeat.HasServices {
			return true
		}
	}
	return false
}

// updateOwned computes which app instances own shards of each service in the last map.
func (sr *serviceRunners) updateOwned(in inputs) {
	services, last := in.state.Services(), in.state.Proposed()
	isUnchanged := last == sr.ownedIn && len(services) == len(sr.list)
	for i := 0; isUnchanged && i < len(services); i++ {
		isUnchanged = services[i] == sr.list[i]
	}
	if isUnchanged {
		return
	}
	sr.owned, sr.ownedIn, sr.list = map[uint64]map[shardmap.NodeID]shardmap.InstanceSet{}, last, services
	for _, service := range services {
		owners := map[shardmap.NodeID]ack.InstanceBits{}
		for shard := service.First; int(shard) < service.End(); shard++ {
			if owner := last.Owner(shard); owner != "" {
				owners[owner] = owners[owner].With(last.Instance(shard))
			}
		}
		sets := map[shardmap.NodeID]shardmap.InstanceSet{}
		for id, bits := range owners {
			sets[id] = shardmap.InstanceSet(bits).Normalized()
		}
		sr.owned[service.ID] = sets
	}
}

// ownsShards reports whether the node owns shards of the service in the last map.
func (sr *serviceRunners) ownsShards(node *member, service ack.Service) bool {
	_, owns := sr.owned[service.ID][node.id]
	return owns
}

// instancesOf returns the app instances of the node that run the service, and whether there are any.
// While the node restarts or has not sent a heartbeat in this term, these are the instances that own shards
// of the service. So an election alone moves nothing.
func (sr *serviceRunners) instancesOf(in inputs, node *member, service ack.Service) (instances shardmap.InstanceSet, runs bool) {
	if !node.hasHeartbeat() || in.isRestarting(node) {
		instances, runs = sr.owned[service.ID][node.id]
		return instances, runs
	}
	report, runs := node.heartbeat.ServiceReport(service)
	return report.Instances, runs
}

// appStatus returns the status of the app of a service at the node. runs is false if the node does not run
// the service.
func (sr *serviceRunners) appStatus(in inputs, node *member, service ack.Service) (app appStatus, runs bool) {
	if _, runs = sr.instancesOf(in, node, service); !runs {
		return appStatus{}, false
	}
	report, _ := node.heartbeat.ServiceReport(service)
	return appStatus{unhealthy: report.Unhealthy, health: report.App, isMember: sr.ownsShards(node, service)}, true
}

// excludes reports whether the node may not own shards of the service because its app is unhealthy. runs is
// false if the node does not run the service.
func (sr *serviceRunners) excludes(in inputs, node *member, service ack.Service) (excluded, runs bool) {
	app, runs := sr.appStatus(in, node, service)
	health := sr.health[service.ID]
	return runs && health != nil && health.excludes(app), runs
}

// excludesNode reports whether the node runs services, and may not own shards of any of them because all
// their apps are unhealthy.
func (sr *serviceRunners) excludesNode(in inputs, node *member) bool {
	anyExcluded := false
	for _, service := range sr.list {
		excluded, runs := sr.excludes(in, node, service)
		if runs && !excluded {
			return false
		}
		anyExcluded = anyExcluded || excluded
	}
	return anyExcluded
}

// placement returns the services for shardmap.Assign, with the members that may own shards of each. nil means
// that services are not in use. replicas is Options.Replicas.
func (sr *serviceRunners) placement(in inputs, members []shardmap.Member, nodes *memberTracker, replicas map[string]int) []shardmap.Service {
	if !sr.inUse {
		return nil
	}
	placed := make([]shardmap.Service, len(sr.list))
	for i, service := range sr.list {
		placed[i] = shardmap.Service{First: service.First, Count: service.Shards, Instances: map[shardmap.NodeID]shardmap.InstanceSet{}, Replicas: replicas[service.Name]}
		for _, member := range members {
			node := nodes.getOrCreate(member.ID)
			if excluded, _ := sr.excludes(in, node, service); excluded {
				continue
			}
			if instances, runs := sr.instancesOf(in, node, service); runs {
				placed[i].Instances[member.ID] = instances
			}
		}
	}
	return placed
}

// isSameService reports whether two services have the same range, and run at the same app instances.
func isSameService(a, b shardmap.Service) bool {
	return a.First == b.First && a.Count == b.Count && a.Replicas == b.Replicas && maps.Equal(a.Instances, b.Instances)
}

// runningNodes returns the nodes that report in their heartbeats that they run the service, ascending.
func (sr *serviceRunners) runningNodes(nodes *memberTracker, service ack.Service) []shardmap.NodeID {
	var running []shardmap.NodeID
	for id, node := range nodes.byID {
		isGone := !node.hasHeartbeat() || node.heartbeat.Gateway || node.hasCrashed() || node.removed || node.heartbeat.Goodbye
		if _, runs := node.heartbeat.ServiceReport(service); runs && !isGone {
			running = append(running, id)
		}
	}
	slices.Sort(running)
	return running
}

// checkServiceRemovals returns an *ack.ServiceError if a change removes a service that a node still runs.
func (l *Leader) checkServiceRemovals(changes []ack.Change) error {
	for _, change := range changes {
		service, exists := l.in.state.Service(change.Service)
		if change.Kind != ack.ChangeRemoveService || !exists {
			continue
		}
		if nodes := l.membership.services.runningNodes(&l.members, service); len(nodes) > 0 {
			return &ack.ServiceError{Service: service.Name, Reason: ack.ErrServiceRuns, Nodes: nodes}
		}
	}
	return nil
}

// healthyInstances returns the app instances of the node that have not failed, and whether there are any.
func (ms *membership) healthyInstances(in inputs, node *member) (healthy shardmap.InstanceSet, found bool) {
	if ms.services.inUse {
		return ms.services.healthyInstances(in, node)
	}
	return node.healthyInstances(in), true
}

// healthyInstances returns the app instances of the node that run a service and have not failed, and
// whether there are any.
func (sr *serviceRunners) healthyInstances(in inputs, node *member) (healthy shardmap.InstanceSet, found bool) {
	var bits ack.InstanceBits
	for _, service := range sr.list {
		excluded, _ := sr.excludes(in, node, service)
		instances, runs := sr.instancesOf(in, node, service)
		if !runs || excluded {
			continue
		}
		for _, instance := range instances.All() {
			bits = bits.With(instance)
		}
	}
	return shardmap.InstanceSet(bits).Normalized(), bits != 0
}
