package ack

import "slices"

// A service has started when one of its shards has an owner, or has had one. Before, no node has run the service, so
// shards without an owner are no failure, and the following counts omit them. If no service has started, all services
// count. Shards outside all ranges never count: they belonged to a removed service.

// HasStarted reports whether a shard of the service has an owner, or has had one.
func (s *State) HasStarted(service Service) bool {
	for shard := service.First; int(shard) < service.End(); shard++ {
		if s.committed.Owner(shard) != "" || s.PreviousOwner(shard) != "" {
			return true
		}
	}
	return false
}

// UnstartedServices returns the services that have not started. It returns nil if none has started.
func (s *State) UnstartedServices() []Service {
	unstarted := slices.DeleteFunc(slices.Clone(s.Services()), s.HasStarted)
	if len(unstarted) == len(s.Services()) {
		return nil
	}
	return unstarted
}

// ServiceShards returns the number of shards of all services; zero before the bootstrap. The map can be longer,
// because it keeps the ranges of removed services.
func (s *State) ServiceShards() int {
	total := 0
	for _, service := range s.Services() {
		total += service.Shards
	}
	return total
}

// StartedShards returns the number of shards of the services that have started.
func (s *State) StartedShards() int {
	total := s.ServiceShards()
	for _, service := range s.UnstartedServices() {
		total -= service.Shards
	}
	return total
}

// OrphanCount returns the number of shards without an owner in the committed map, of the services that have
// started.
func (s *State) OrphanCount() int {
	if !s.HasServices() || s.committed.OrphanCount() == 0 {
		return s.committed.OrphanCount()
	}
	unstarted, orphaned := s.UnstartedServices(), 0
	for _, service := range s.Services() {
		if !slices.Contains(unstarted, service) {
			orphaned += s.countOrphans(service)
		}
	}
	return orphaned
}

// OrphansOf returns the number of shards of the service that OrphanCount counts.
func (s *State) OrphansOf(service Service) int {
	if slices.Contains(s.UnstartedServices(), service) {
		return 0
	}
	return s.countOrphans(service)
}

// countOrphans returns the number of shards of the service without an owner in the committed map.
func (s *State) countOrphans(service Service) int {
	orphaned := 0
	for shard := service.First; int(shard) < service.End(); shard++ {
		if s.committed.Owner(shard) == "" {
			orphaned++
		}
	}
	return orphaned
}
