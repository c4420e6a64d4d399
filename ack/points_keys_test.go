package ack_test

// pointsOfKeys are those of docs/internals/protocol-settings.md, "The key configuration is a fact
// of the cluster".
func pointsOfKeys() []point {
	return []point{
		{of: "keys", clause: "a key configuration becomes active when every member has loaded it", planted: []string{"keys: a key configuration becomes active before all members have loaded it"}},
		{of: "keys", clause: "requests for all shards wait during a proposal that changes it", planted: []string{"keys: requests do not wait during a change"}},
		{of: "keys", clause: "it is committed with the acknowledgement of every member, restarting or not", planted: []string{"keys: a change does not wait for a node that restarts in place"}},
		{of: "keys", clause: "and a node acknowledges it after its last request", planted: []string{"keys: a change drains nothing"}},
		{
			of: "keys", clause: "only the active one determines keys",
			explained: "Redundant: during such a proposal all requests wait, so a request with a key of the proposed one would wait for the commit.",
		},
		{of: "rule 8", clause: "snapshots contain it, and the proposed one", planted: []string{"rule 8: snapshots forget a change of the keys"}},
		{
			of: "keys", clause: "a request forwarded under an earlier one is refused",
			explained: "The model has no forwarding node, see reason 19. TestOwnerRefusesOutdatedKeyConfig of package proxy.",
		},
	}
}
