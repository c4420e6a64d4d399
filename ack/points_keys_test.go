package ack_test

// pointsOfKeys are those of docs/internals/protocol-settings.md, "The key configuration is a fact of the
// cluster".
func pointsOfKeys() []point {
	return []point{
		{of: "keys", clause: "a key configuration becomes active when every member has loaded it", planted: []string{"keys: they become active before all members have loaded them"}},
		{of: "keys", clause: "a proposal that changes it holds every shard", planted: []string{"keys: a change holds nothing"}},
		{of: "keys", clause: "it is committed with the acknowledgement of every member, restarting or not", planted: []string{"keys: a change does not wait for who restarts in place"}},
		{of: "keys", clause: "and a node acknowledges it when nothing runs any more", planted: []string{"keys: a change drains nothing"}},
		{
			of: "keys", clause: "keys are found by the active one only",
			explained: "While one is proposed every shard is held, so what was found by it would wait for the commit: a second lock.",
		},
		{of: "rule 8", clause: "snapshots have it, and what is proposed", planted: []string{"rule 8: snapshots forget a change of the keys"}},
		{
			of: "keys", clause: "a request that was forwarded under an earlier one is refused",
			explained: "No ingress is in the model, see why 19. TestOwnerRefusesWhatWasKeyedBefore of package proxy.",
		},
	}
}
