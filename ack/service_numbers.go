package ack

import (
	"maps"
	"slices"
	"strings"

	"shardway/shardmap"
)

// NumberInService returns the service of a shard, and the number of the shard within it. If the cluster has no list of
// services, the name is empty and the number unchanged.
func (s *State) NumberInService(shard shardmap.Shard) (service string, number shardmap.Shard) {
	found, exists := s.ServiceOf(shard)
	if !s.HasServices() || !exists {
		return "", shard
	}
	return found.Name, shard - found.First
}

// FormatShards does the same as shardmap.FormatShards, with the numbers within each service, such as
// "shard 3 of service chat, 2 shards: 0, 5 of service mail".
func (s *State) FormatShards(shards []shardmap.Shard) string {
	byService := map[string][]shardmap.Shard{}
	for _, shard := range shards {
		service, number := s.NumberInService(shard)
		byService[service] = append(byService[service], number)
	}
	var texts []string
	for _, service := range slices.Sorted(maps.Keys(byService)) {
		text := shardmap.FormatShards(byService[service])
		if service != "" {
			text += " of service " + service
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
