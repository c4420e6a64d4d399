package ack_test

// pointsOfStandbys are those of docs/internals/protocol-moves.md about standbys, and those of
// docs/internals/protocol-policy.md about the spread over zones.
func pointsOfStandbys() []point {
	return []point{
		{of: "standbys", clause: "the first standby that can get a shard takes it over", planted: []string{"standbys: the leader ignores the standbys"}},
		{of: "standbys", clause: "all nodes compute the same standbys", explained: "It is a property of shardmap.Map.Standbys, which is a pure function. TestStandbysAreStableAcrossVersions."},
		{of: "standbys", clause: "a takeover moves no shard of a live owner", explained: "It is a property of shardmap.Assign. TestShardsAreEvenAfterTheCallThatFollowsATakeover."},
		{of: "standbys", clause: "all zones have the same quota", planted: []string{"standbys: the leader ignores the zones of owners"}},
	}
}
