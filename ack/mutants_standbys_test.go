package ack_test

// mutantsOfStandbys are faults in how standbys take over shards.
func mutantsOfStandbys() []mutant {
	of := func(list string) *simMix {
		m := aimed(list)
		m.standbys = 100
		return m
	}
	const losses = "kill 10, restart 4, leave 4, sick 4, elect 3"
	return []mutant{
		{
			name: "standbys: the leader ignores the standbys", mix: of(losses), caught: "G9",
			edits: in("ack/leader.placementInputs.placement", "pi.replicas[ack.DefaultService]\n", "pi.replicas[ack.DefaultService]*(1-plantedAs(PLANTED))\n"),
		},
		{
			name: "standbys: the leader ignores the zones of owners", mix: of(losses), caught: "G9",
			edits: in("ack/leader.placementInputs.placement", "	placement.SpreadZones = pi.spreadZones\n", "	placement.SpreadZones = pi.spreadZones && !PLANTED\n"),
		},
	}
}
