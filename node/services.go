package node

import (
	"fmt"
	"maps"
	"slices"

	"shardway/ack"
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

// checkServices returns an error if a service of the configuration has another number of shards in the
// cluster. Each key of the service would get another shard.
func checkServices(state *ack.State, configured []ack.ServiceSpec) error {
	for _, spec := range configured {
		if service, exists := state.Service(spec.Name); exists && service.Shards != spec.Shards {
			return fmt.Errorf("node: service %[1]s has %[2]d shards in cluster %[3]s, but services.%[1]s.shards is %[4]d: the number of shards of a service cannot change; set it to %[2]d, or add a service with another name",
				spec.Name, service.Shards, state.ClusterID(), spec.Shards)
		}
	}
	return nil
}

// CheckServices returns an error if a service has another number of shards in the cluster.
func (n *Node) CheckServices(configured []ack.ServiceSpec) error {
	return checkServices(n.router.State(), configured)
}
