package api

// StandbyService serves the standbys of shards: the nodes that take over a shard after a failure of its owner.
type StandbyService interface {
	// MapWithStandbys returns the committed map, with Map.Standbys set.
	MapWithStandbys() Map
	// ShardStandbys returns the standbys of a shard, with numbers of the map of all services. It returns nil if
	// the shard should have none.
	ShardStandbys(shard uint32) *ShardStandbys
}

// ShardStandbys contains the standbys of a shard.
type ShardStandbys struct {
	// Standbys contains the standbys, the next owner first.
	Standbys []MapNode
	// NotStandbys contains the other nodes except the owner, sorted by ID.
	NotStandbys []NotStandby
}

// NotStandby is a node that is not a standby of a shard.
type NotStandby struct {
	Node   string `json:"node"`
	Reason string `json:"reason"` // one of the Reason constants
}

// Values of NotStandby.Reason.
const (
	// ReasonTooManyReplicas is the reason of a node that could be a standby, but the shard has enough others.
	ReasonTooManyReplicas = "too-many-replicas"
	// ReasonDraining is the reason of a node that is draining, drained, cordoned or stopping.
	ReasonDraining = "draining"
	// ReasonRole is the reason of a gateway, and of a node without the role to which shards are restricted.
	ReasonRole = "role"
	// ReasonUnhealthy is the reason of a node that runs, but is not in the map: its app is unhealthy, or it joins.
	ReasonUnhealthy = "unhealthy"
	// ReasonUnknown is the reason of a node that does not run, and of a node without a shard of the service.
	ReasonUnknown = "unknown"
)
