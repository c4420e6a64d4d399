package node

import (
	"fmt"
	"maps"
	"slices"

	"shardway/ack"
	"shardway/diagnosis"
	"shardway/proxy/upstream"
)

// instanceBits converts the app instances of each service. nil means that the node has no services.
func instanceBits(services map[string]upstream.InstanceBits) map[string]ack.InstanceBits {
	if services == nil {
		return nil
	}
	converted := make(map[string]ack.InstanceBits, len(services))
	for name, instances := range services {
		converted[name] = ack.InstanceBits(instances)
	}
	return converted
}

// serviceNames returns the names of the services of the configuration, sorted.
func serviceNames(services map[string]upstream.InstanceBits) []string {
	return slices.Sorted(maps.Keys(services))
}

// serviceConflicts returns the services whose numbers of shards in the configuration of this node differ from
// those in the cluster.
func serviceConflicts(state *ack.State, configured []ack.ServiceSpec) (conflicts []diagnosis.ServiceConflict) {
	for _, spec := range configured {
		if service, exists := state.Service(spec.Name); exists && service.Shards != spec.Shards {
			conflicts = append(conflicts, diagnosis.ServiceConflict{Service: spec.Name, Configured: spec.Shards, Cluster: service.Shards})
		}
	}
	return conflicts
}

// checkServices returns an error if a service of the configuration has another number of shards in the
// cluster. Each key of the service would get another shard.
func checkServices(state *ack.State, configured []ack.ServiceSpec) error {
	for _, conflict := range serviceConflicts(state, configured) {
		return fmt.Errorf("node: service %[1]s has %[2]d shards in cluster %[3]s, but services.%[1]s.shards is %[4]d: the number of shards of a service cannot change; set it to %[2]d, or add a service with another name",
			conflict.Service, conflict.Cluster, state.ClusterID(), conflict.Configured)
	}
	return nil
}

// CheckServices returns an error if a service has another number of shards in the cluster.
func (n *Node) CheckServices(configured []ack.ServiceSpec) error {
	return checkServices(n.router.State(), configured)
}

// configuredServices returns the services of the loaded key configuration. Without any, the node runs the service
// default.
func (n *Node) configuredServices() []ack.ServiceSpec {
	if loaded := n.loadedKeys.services.Load(); loaded != nil && len(*loaded) > 0 {
		return *loaded
	}
	if len(n.options.Services) > 0 {
		return n.options.Services
	}
	return []ack.ServiceSpec{{Name: ack.DefaultService, Shards: n.options.Shards}}
}

// serviceConflicts returns the services whose numbers of shards differ between the configuration and the cluster.
func (n *Node) serviceConflicts() []diagnosis.ServiceConflict {
	return serviceConflicts(n.fsm.state.Load(), n.configuredServices())
}
