package upstream

import (
	"shardway/proxy/route"
	"shardway/shardmap"
)

// InstanceBits is a set of app instances of this node. The zero value is empty.
type InstanceBits uint32

// Has reports whether the set contains the instance.
func (set InstanceBits) Has(instance uint8) bool { return set&(1<<instance) != 0 }

// With returns the set with one more instance.
func (set InstanceBits) With(instance uint8) InstanceBits { return set | 1<<instance }

// allInstances contains every instance.
const allInstances = InstanceBits(1<<shardmap.MaxInstances - 1)

// instancesOf returns the app instances of this node that run a service. An empty name stands for
// route.DefaultService.
func (p *Pools) instancesOf(service string) InstanceBits {
	if p.services == nil {
		return allInstances
	}
	if service == "" {
		service = route.DefaultService
	}
	return p.services[service]
}

// RunsService reports whether this node has an app of the service. An empty name stands for
// route.DefaultService.
func (p *Pools) RunsService(service string) bool {
	return !p.IsGateway() && p.instancesOf(service) != 0
}

// RunsInstance reports whether an app instance of this node runs the service. After a change of the
// configuration, the shard map may still name an instance that runs another service now.
func (p *Pools) RunsInstance(service string, instance uint8) bool {
	return p.services == nil || p.instancesOf(service).Has(instance)
}
