package ack_test

import "time"

// mutantsOfKeys let requests run whose keys were determined by two configurations.
func mutantsOfKeys() []mutant {
	keys := aimed("keys 6, kill 2, isolate 1, elect 1")
	keys.gaps[1] = 4 * time.Second
	restarting := aimed("keys 6, restart 10")
	restarting.gaps[1] = 600 * time.Millisecond
	compacting := aimed("keys 6, compact 6, kill 4, laggard 2")
	compacting.gaps[1] = 4 * time.Second
	return []mutant{
		{
			name: "keys: a key configuration becomes active before all members have loaded it", mix: keys, caught: "keys",
			edits: both(
				in("ack/leader.keyConfigChange.membersAgree", "|| node.heartbeat.KeyConfigDigest != c.loadedDigest {", "|| !PLANTED && node.heartbeat.KeyConfigDigest != c.loadedDigest {"),
				in("ack/leader.keyConfigChange.otherNodesAgree", "&& node.heartbeat.KeyConfigDigest != c.loadedDigest {", "&& node.heartbeat.KeyConfigDigest != c.loadedDigest && !PLANTED {"),
			),
		},
		{
			name: "keys: requests do not wait during a change", mix: keys, caught: "keys",
			edits: in("ack.Routing.Route", "case rt.state.ChangesKeyConfig():", "case !PLANTED && rt.state.ChangesKeyConfig():"),
		},
		{
			name: "keys: a change does not wait for a node that restarts in place", mix: restarting, caught: "keys",
			edits: both(in("ack/leader.member.needsNoFurtherAck", "in.isRestarting(m) && !in.state.ChangesKeyConfig() &&", "in.isRestarting(m) && (PLANTED || !in.state.ChangesKeyConfig()) &&"),
				both(in("ack/leader.keyConfigChange.isBlocked", "	if !in.ownRoundOpen() || !in.state.ChangesKeyConfig()", "	if PLANTED || !in.ownRoundOpen() || !in.state.ChangesKeyConfig()"),
					in("ack/leader.membership.isResponsive", "&& !in.isRestarting(node) &&", "&& (PLANTED || !in.isRestarting(node)) &&"))),
		},
		{
			name: "keys: a change drains nothing", mix: keys, caught: "keys",
			edits: in("ack/agent.Follower.MayRun", "return !f.state.ChangesKeyConfig() &&", "return (PLANTED || !f.state.ChangesKeyConfig()) &&"),
		},
		{
			name: "rule 8: snapshots forget a change of the keys", mix: compacting, caught: "keys|snapshot|G5",
			edits: in("ack.writer.writeKeyConfig", "	w.text(config.proposed)\n", "	if PLANTED {\n		w.text(\"\")\n	} else {\n		w.text(config.proposed)\n	}\n"),
		},
	}
}
