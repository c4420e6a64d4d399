package appinstance

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/shardmap"
)

// Services reports which services the app instances of this node run. Only the goroutine of the agent uses
// it. nil means that the node has no services.
type Services struct {
	self shardmap.NodeID
	list []*serviceApp // ascending by name
}

// serviceApp contains the app instances of one service. The health of the apps of other services does not
// affect them.
type serviceApp struct {
	name      string
	instances ack.InstanceBits
	selector  ackagent.InstanceSelector
}

// NewServices returns the Services of a node. instances contains the app instances by service. It returns nil
// if instances is nil.
func NewServices(self shardmap.NodeID, instances map[string]ack.InstanceBits) *Services {
	if instances == nil {
		return nil
	}
	services := &Services{self: self}
	for _, name := range slices.Sorted(maps.Keys(instances)) {
		if instances[name] != 0 {
			services.list = append(services.list, &serviceApp{name: name, instances: instances[name]})
		}
	}
	return services
}

// Checks returns the results of the health checks by app instance. s may be nil; the result is nil then,
// because the node has one instance.
func (s *Selection) Checks() []ackagent.InstanceCheck {
	if s == nil {
		return nil
	}
	return s.health.Checks()
}

// AddTo adds the services to the observation, after Selection.AddTo. checks is the result of
// Selection.Checks. s may be nil.
func (s *Services) AddTo(now time.Duration, checks []ackagent.InstanceCheck, observation *ackagent.Observation) {
	if s == nil || !observation.State.FormatVersion().HasServices() {
		return
	}
	observation.HasServices, observation.Services = true, nil
	var selected ack.InstanceBits
	for _, app := range s.list {
		service, exists := observation.State.Service(app.name)
		if !exists {
			continue // the leader adds the service when all nodes have the same key configuration
		}
		report := ack.ServiceReport{ID: service.ID, Instances: shardmap.InstanceSet(app.instances).Normalized(), Unhealthy: observation.Unhealthy, App: observation.App}
		if checks != nil {
			report = app.report(now, service.ID, checks, func(instance shardmap.Instance) bool {
				return observation.State.Committed().InstanceCount(s.self, instance) > 0
			})
		}
		for instance := range shardmap.Instance(shardmap.MaxInstances) {
			if report.Instances.Has(instance) {
				selected = selected.With(instance)
			}
		}
		observation.Services = append(observation.Services, report)
	}
	slices.SortFunc(observation.Services, func(a, b ack.ServiceReport) int { return cmp.Compare(a.ID, b.ID) })
	if checks != nil && selected != 0 {
		observation.Instances = shardmap.InstanceSet(selected).Normalized()
	}
}

// report returns the report about the service. For its selector, the instances of other services are absent.
func (a *serviceApp) report(now time.Duration, id uint64, checks []ackagent.InstanceCheck, ownsShards func(shardmap.Instance) bool) ack.ServiceReport {
	own := slices.Clone(checks)
	for i := range own {
		if !a.instances.Has(shardmap.Instance(i)) {
			own[i] = ackagent.InstanceCheck{Absent: true}
		}
	}
	health := a.selector.Update(now, own, ownsShards)
	return ack.ServiceReport{ID: id, Instances: health.Instances, Unhealthy: health.Unhealthy, App: health.App}
}
