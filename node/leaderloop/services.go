package leaderloop

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/keysource"
	"shardway/shardmap"
)

// setMapShard replaces the number of a shard within a service by its number in the map.
func (l *Leadership) setMapShard(action *api.Action) error {
	if action.Service == "" || action.Verb == api.AddService || action.Verb == api.RemoveService {
		return nil
	}
	state := l.options.View.State()
	service, exists := state.Service(action.Service)
	switch {
	case !exists:
		return unknownService(state, action.Service)
	case uint64(action.Shard) >= uint64(service.Shards):
		return fmt.Errorf("%w: shard = %d is not a shard of service %s: give a number from 0 to %d", api.ErrInvalid, action.Shard, service.Name, service.Shards-1)
	}
	action.Shard += uint32(service.First)
	return nil
}

// unknownService returns the error for a service that the cluster does not have.
func unknownService(state *ack.State, name string) error {
	var names []string
	for _, service := range state.Services() {
		names = append(names, service.Name)
	}
	return fmt.Errorf("%w: service = %q is not a service of the cluster: give one of %s", api.ErrUnknownService, name, strings.Join(names, ", "))
}

// checkAddedService returns an error if the service to add exists, or if the configuration of a node contains another
// number of shards. configured contains the known numbers by node.
func checkAddedService(state *ack.State, action api.Action, configured map[string]int) error {
	service, exists := state.Service(action.Service)
	switch {
	case !exists:
		for _, node := range slices.Sorted(maps.Keys(configured)) {
			if shards := configured[node]; shards != int(action.Shards) {
				return fmt.Errorf("%w: shards = %d, but the configuration of node %s has services.%s.shards = %d: add the service with %d shards, or correct the configurations of all nodes first", api.ErrRefused, action.Shards, node, action.Service, shards, shards)
			}
		}
		return nil
	case service.Shards == int(action.Shards):
		return fmt.Errorf("%w: service = %q exists already, with %d shards: `shardway service list` shows the services", api.ErrRefused, service.Name, service.Shards)
	}
	return fmt.Errorf("%w: shards = %d, but service %s has %d, and the number of shards of a service cannot change: add a service with another name", api.ErrRefused, action.Shards, service.Name, service.Shards)
}

// configuredShards returns the number of shards of a service in the configurations of this node and of the other nodes that
// have reported it, by node.
func (l *Leadership) configuredShards(service string) map[string]int {
	configured := l.reportedSettings.serviceShards(service)
	delete(configured, string(l.options.Self)) // a report may be older than the last reload
	for _, spec := range ServicesOf(l.options.Keys()) {
		if spec.Name == service {
			configured[string(l.options.Self)] = spec.Shards
		}
	}
	return configured
}

// ServicesOf returns the services of a key configuration; nil means that it has none, or that it cannot be read.
func ServicesOf(keyConfig string) (services []ack.ServiceSpec) {
	parsed, err := keysource.ParseConfig(keyConfig)
	if err != nil {
		return nil
	}
	for i := range parsed.Services {
		services = append(services, ack.ServiceSpec{Name: parsed.Services[i].Name, Shards: parsed.Services[i].Shards})
	}
	return services
}

// checkRemovedService returns an error if the service does not exist, if the active key configuration names it, or if
// one of its shards has an owner.
func checkRemovedService(state *ack.State, name string) error {
	service, exists := state.Service(name)
	switch {
	case !exists:
		return unknownService(state, name)
	case len(state.Services()) == 1:
		return fmt.Errorf("%w: service = %q is the only service of the cluster: add another one first", api.ErrServiceInUse, name)
	case ConfiguresService(state, name):
		return fmt.Errorf("%w: service = %q is in the active key configuration: remove services.%s from the configuration of all nodes, and reload it", api.ErrServiceInUse, name, name)
	}
	if owners := ownersOf(state, service); len(owners) > 0 {
		return fmt.Errorf("%w: nodes %s own shards of service = %q: remove services.%s.upstream from their configuration, and wait until `shardway service list` shows no owners", api.ErrServiceInUse, strings.Join(owners, ", "), name, name)
	}
	return nil
}

// ConfiguresService reports whether the active key configuration names a service. A key configuration without services
// is the one of the service default. A service is in use if the key configuration cannot be read.
func ConfiguresService(state *ack.State, name string) bool {
	if state.KeyConfig() == "" {
		return false
	}
	config, err := keysource.ParseConfig(state.KeyConfig())
	if err != nil {
		return true
	}
	if len(config.Services) == 0 {
		return name == ack.DefaultService
	}
	return slices.ContainsFunc(config.Services, func(service keysource.Service) bool { return service.Name == name })
}

// ownersOf returns the nodes that own shards of a service in the committed or in the proposed map, sorted.
func ownersOf(state *ack.State, service ack.Service) []string {
	var owners []string
	for i := service.First; int(i) < service.End(); i++ {
		for _, owner := range []shardmap.NodeID{state.Committed().Owner(i), state.Proposed().Owner(i)} {
			if owner != "" && !slices.Contains(owners, string(owner)) {
				owners = append(owners, string(owner))
			}
		}
	}
	slices.Sort(owners)
	return owners
}

// isServiceError reports whether err is the refusal of a change of the services.
func isServiceError(err error) bool {
	_, ok := errors.AsType[*ack.ServiceError](err)
	return ok
}

// translateServiceError converts the refusal of a change of the services to an error for the operator.
func translateServiceError(err error) error {
	refused, _ := errors.AsType[*ack.ServiceError](err)
	switch {
	case errors.Is(refused.Reason, ack.ErrServiceRuns):
		nodes := make([]string, len(refused.Nodes))
		for i, node := range refused.Nodes {
			nodes[i] = string(node)
		}
		return fmt.Errorf("%w: nodes %s run service = %q: remove services.%s.upstream from their configuration first", api.ErrServiceInUse, strings.Join(nodes, ", "), refused.Service, refused.Service)
	case errors.Is(refused.Reason, ack.ErrServiceInUse), errors.Is(refused.Reason, ack.ErrLastService):
		return fmt.Errorf("%w: %w: `shardway service list` shows the owners", api.ErrServiceInUse, err)
	case errors.Is(refused.Reason, ack.ErrNoService):
		return fmt.Errorf("%w: service = %q is not a service of the cluster: `shardway service list` shows the services", api.ErrUnknownService, refused.Service)
	case errors.Is(refused.Reason, ack.ErrNoServiceRange):
		return fmt.Errorf("%w: %w: give a smaller number of shards, or remove a service", api.ErrRefused, err)
	case errors.Is(refused.Reason, ack.ErrTooManyServices):
		return fmt.Errorf("%w: %w: remove a service first", api.ErrRefused, err)
	}
	return fmt.Errorf("%w: %w", api.ErrRefused, err)
}
