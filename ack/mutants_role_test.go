package ack_test

// mutantsOfRoles place shards without regard to the role to which an operator has restricted them, or take shards for
// its sake that must stay.
func mutantsOfRoles() []mutant {
	restarts := aimed("role 8, role-restart 6, kill 2, elect 1")
	cached := func(list string) *simMix {
		m := aimed(list)
		m.caches = 100
		return m
	}
	const restrict = "ack/leader.placementInputs.restrictToRole"
	return []mutant{
		{
			name: "role: members without the role keep their shards", mix: restarts, caught: "G9|progress",
			edits: in(restrict, "	placement.Emptied = withNodes(nil, groups.lacking)\n", "	if PLANTED {\n		placement.Cordoned = withNodes(placement.Cordoned, groups.lacking)\n		return\n	}\n	placement.Emptied = withNodes(nil, groups.lacking)\n"),
		},
		{
			name: "role: without a member that has the role, no member may get shards", mix: restarts, caught: "G9|progress",
			edits: in(restrict, "	if len(groups.owners) == 0 {\n", "	if !PLANTED && len(groups.owners) == 0 {\n"),
		},
		{
			name: "role: shards go to members without the role", mix: aimed("role 8, role-restart 4, kill 6, policy 4"), caught: "role",
			edits: in(restrict, "	placement.Emptied = withNodes(nil, groups.lacking)\n", "	if !PLANTED {\n		placement.Emptied = withNodes(nil, groups.lacking)\n	}\n"),
		},
		{
			name: "role: a new leader moves shards before it has the roles of all members", mix: aimed("role 6, elect 6, depose 4, kill 2"), caught: "role|G9",
			edits: in(restrict, "	placement.Paused = placement.Paused || len(groups.unknown) > 0\n", "	placement.Paused = placement.Paused || !PLANTED && len(groups.unknown) > 0\n"),
		},
		{
			name: "role: a member that has not been heard counts as one with the role", mix: aimed("role 6, elect 6, depose 4, kill 2"), caught: "role|G9",
			edits: in("ack/leader.placementInputs.groupByRole", "		case !node.hasHeartbeat():\n", "		case !PLANTED && !node.hasHeartbeat():\n"),
		},
		{
			name: "role: a cordoned member with the role takes all shards", mix: aimed("role 8, policy 8"), caught: "G9|progress",
			edits: in("ack/leader.placementInputs.groupByRole", "mayReceive := !placement.Cordoned[member.ID]", "mayReceive := (PLANTED || !placement.Cordoned[member.ID])"),
		},
		{
			name: "role: the leader does not notice other roles of a node", mix: restarts, caught: "G9|progress",
			edits: in("ack/leader.memberTracker.storeHeartbeat", "|| !slices.Equal(old.Roles, received.Roles)", "|| !PLANTED && !slices.Equal(old.Roles, received.Roles)"),
		},
		{
			name: "role: a shard that no app with the role acquires stays there", mix: hooked("role 10, app-ill 10, role-restart 4"), caught: "unacquired|G9",
			edits: in("ack/leader.relocation.substituteFor", "	if len(rl.shardCounts) == 0 || rl.placement.Paused {\n", "	if len(rl.shardCounts) == 0 || rl.placement.Paused || PLANTED {\n"),
		},
		{
			name: "role: a node with the role gets shards of which it may have an old copy", mix: cached("role 10, kill 8, policy 6, role-restart 4, elect 3"), caught: "returns|G9",
			edits: in(restrict, "	placement.Substitutes = withNodes(nil, groups.substitutes)\n", "	if !PLANTED {\n		placement.Substitutes = withNodes(nil, groups.substitutes)\n	}\n"),
		},
		{
			name: "role: a new leader gives an unknown node no shards of which others may have an old copy", mix: cached("role 10, kill 8, policy 6, elect 6, depose 4"), caught: "returns|G9",
			edits: in("ack/leader.placementInputs.groupByRole", "			if mayReceive {\n				groups.substitutes = append(groups.substitutes, member.ID)\n			}\n		case node.lacksRole", "			if mayReceive && !PLANTED {\n				groups.substitutes = append(groups.substitutes, member.ID)\n			}\n		case node.lacksRole"),
		},
		{
			name: "rule 8: snapshots forget the role", mix: aimed("role 6, compact 4, kill 4, wipe 2"), caught: "G5",
			edits: in("ack.writer.writePolicy", "		w.text(policy.Role)\n", "		w.text([]string{policy.Role, \"\"}[plantedAs(PLANTED)])\n"),
		},
	}
}

// pointsOfRoles are those of docs/internals/protocol-policy.md, "Roles".
func pointsOfRoles() []point {
	return []point{
		{of: "role", clause: "shards move from members without the role to members with it", planted: []string{"role: members without the role keep their shards"}},
		{of: "role", clause: "when the policy or the roles of a node change", planted: []string{"role: the leader does not notice other roles of a node"}},
		{of: "role", clause: "and orphaned shards go to members with the role", planted: []string{"role: shards go to members without the role"}},
		{of: "role", clause: "without such a member shards stay, and orphaned shards get an owner", planted: []string{"role: without a member that has the role, no member may get shards"}},
		{of: "role", clause: "a member without it owns a shard that no app with the role acquires", planted: []string{"role: a shard that no app with the role acquires stays there"}},
		{
			of: "role", clause: "a member without it owns an orphaned shard of which members with the role may hold an old copy",
			planted: []string{"role: a node with the role gets shards of which it may have an old copy", "role: a new leader gives an unknown node no shards of which others may have an old copy"},
		},
		{of: "role", clause: "a cordoned member takes nothing", planted: []string{"role: a cordoned member with the role takes all shards"}},
		{
			of: "role", clause: "an election alone moves nothing",
			planted: []string{"role: a new leader moves shards before it has the roles of all members", "role: a member that has not been heard counts as one with the role"},
		},
		{
			of: "role", clause: "a pause delays the moves, busy shards wait for drain-timeout, and a shard stays while its only targets may hold an old copy",
			explained: "Package shardmap does this, and the leader adds nothing: TestRestrictionToRoleIsTheReasonOfMoves, TestBusyShardOfNodeWithoutRoleMovesLater.",
		},
		{of: "role", clause: "snapshots contain the role", planted: []string{"rule 8: snapshots forget the role"}},
		{
			of: "role", clause: "and it outlives the cluster",
			explained: "The simulation has no recovery. TestRoleOfPolicySurvivesSnapshotAndRecovery.",
		},
	}
}
