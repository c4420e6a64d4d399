package ack

import (
	"slices"

	"shardway/shardmap"
)

// StandbyInputs are the inputs of State.Standbys that the replicated state does not contain. A node takes them
// from its settings and from gossip. Two nodes with different inputs compute different standbys, but no
// guarantee depends on standbys.
type StandbyInputs struct {
	// Replicas is the number of standbys of each shard, by service. A service that is missing has none.
	Replicas map[string]int
	// Zones contains the zone of each node, and Roles its roles.
	Zones map[shardmap.NodeID]string
	Roles map[shardmap.NodeID][]string
}

// Standbys returns the standbys of the shards in the committed map: the nodes that would own each shard next.
func (s *State) Standbys(inputs StandbyInputs) *shardmap.Standbys {
	placement := s.policy.Placement(inputs.Zones)
	placement.Replicas = inputs.Replicas[DefaultService]
	for _, member := range s.committed.Members() {
		if s.policy.LacksRole(inputs.Roles[member.ID]) {
			setKey(&placement.Emptied, member.ID, true)
		}
	}
	for _, service := range s.services.services {
		placement.Services = append(placement.Services, shardmap.Service{First: service.First, Count: service.Shards, Replicas: inputs.Replicas[service.Name]})
	}
	return s.committed.Standbys(placement)
}

// LacksRole reports whether the policy restricts shards to a role that is not in roles.
func (p *Policy) LacksRole(roles []string) bool {
	return p.Role != "" && !slices.Contains(roles, p.Role)
}
