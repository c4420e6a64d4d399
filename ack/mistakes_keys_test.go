package ack_test

import "time"

// mistakesOfTheKeys are those that let requests run whose keys were found in two ways.
func mistakesOfTheKeys() []mistake {
	keys := aimed("keys 6, kill 2, isolate 1, elect 1")
	keys.gaps[1] = 4 * time.Second
	restarting := aimed("keys 6, restart 6, leave 2")
	restarting.gaps[1] = 2 * time.Second
	compacting := aimed("keys 6, compact 6, kill 4, laggard 2")
	compacting.gaps[1] = 4 * time.Second
	return []mistake{
		{
			name: "keys: they become active before all members have loaded them", mix: keys, caught: "keys",
			edits: both(
				in("keys.go", "!n.heard() || n.beat.Keys != digest || n.beat.Goodbye || n.silent(now, l.o.Pace) {", "!PLANTED && (!n.heard() || n.beat.Keys != digest || n.beat.Goodbye || n.silent(now, l.o.Pace)) {"),
				in("keys.go", "&& n.beat.Keys != digest {\n			return", "&& n.beat.Keys != digest && !PLANTED {\n			return"),
			),
		},
		{
			name: "keys: a change holds nothing", mix: keys, caught: "keys",
			edits: in("route.go", "case r.state.ChangesKeys():", "case !PLANTED && r.state.ChangesKeys():"),
		},
		{
			name: "keys: a change does not wait for who restarts in place", mix: restarting, caught: "keys",
			edits: both(in("away.go", "l.absent(n) && !l.state.ChangesKeys() &&", "l.absent(n) && (PLANTED || !l.state.ChangesKeys()) &&"),
				both(in("keys.go", "	if !l.mine() || !l.state.ChangesKeys()", "	if PLANTED || !l.mine() || !l.state.ChangesKeys()"),
					in("keys.go", "n := l.node(x.ID); l.absent(n) ||", "n := l.node(x.ID); !PLANTED && l.absent(n) ||"))),
		},
		{
			name: "keys: a change drains nothing", mix: keys, caught: "keys",
			edits: in("follower.go", "return !f.state.ChangesKeys() &&", "return (PLANTED || !f.state.ChangesKeys()) &&"),
		},
		{
			name: "rule 8: snapshots forget a change of the keys", mix: compacting, caught: "keys|snapshot|G5",
			edits: in("snapshot.go", "	w.text(s.nextKeys)\n", "	if PLANTED {\n		w.text(\"\")\n	} else {\n		w.text(s.nextKeys)\n	}\n"),
		},
	}
}
