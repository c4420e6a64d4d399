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
				in("ack/leader.Leader.keyConfigToActivate", "|| node.heartbeat.KeyConfigDigest != l.loadedKeyConfig.digest {\n				return", "|| !PLANTED && node.heartbeat.KeyConfigDigest != l.loadedKeyConfig.digest {\n				return"),
				in("ack/leader.Leader.keyConfigToActivate", "&& node.heartbeat.KeyConfigDigest != l.loadedKeyConfig.digest {\n			return", "&& node.heartbeat.KeyConfigDigest != l.loadedKeyConfig.digest && !PLANTED {\n			return"),
			),
		},
		{
			name: "keys: requests do not wait during a change", mix: keys, caught: "keys",
			edits: in("ack.Routing.Route", "case r.state.ChangesKeyConfig():", "case !PLANTED && r.state.ChangesKeyConfig():"),
		},
		{
			name: "keys: a change does not wait for a node that restarts in place", mix: restarting, caught: "keys",
			edits: both(in("ack/leader.Leader.needsNoFurtherAck", "l.isRestarting(node) && !l.state.ChangesKeyConfig() &&", "l.isRestarting(node) && (PLANTED || !l.state.ChangesKeyConfig()) &&"),
				both(in("ack/leader.Leader.keyConfigChangeBlocked", "	if !l.ownRoundOpen() || !l.state.ChangesKeyConfig()", "	if PLANTED || !l.ownRoundOpen() || !l.state.ChangesKeyConfig()"),
					in("ack/leader.Leader.isResponsive", "&& !l.isRestarting(node) &&", "&& (PLANTED || !l.isRestarting(node)) &&"))),
		},
		{
			name: "keys: a change drains nothing", mix: keys, caught: "keys",
			edits: in("ack/agent.Follower.MayRun", "return !f.state.ChangesKeyConfig() &&", "return (PLANTED || !f.state.ChangesKeyConfig()) &&"),
		},
		{
			name: "rule 8: snapshots forget a change of the keys", mix: compacting, caught: "keys|snapshot|G5",
			edits: in("ack.State.MarshalBinary", "	w.text(s.proposedKeyConfig)\n", "	if PLANTED {\n		w.text(\"\")\n	} else {\n		w.text(s.proposedKeyConfig)\n	}\n"),
		},
	}
}
