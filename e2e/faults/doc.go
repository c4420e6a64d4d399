//go:build linux

// Package faults measures what faults cost the clients of a cluster of real
// processes, and what a steady load costs it without any.
//
//	make bench-faults   # TestFaults: the longest time a key went unanswered, per fault
//	                    # TestMoves: for how long a shard is held that moves by plan, with hooks
//	                    # TestBursts: time without a lease while many connections come at once
//	make bench-steady   # TestSteady: false drops and time without a lease at 90 % CPU
//
// Both print and judge no time: a table of figures beside the machine's own
// floor and the targets. Without their flags they skip. A part of the faults:
//
//	go test -v ./e2e/faults -run '^TestFaults$' -faults.trials=5 -faults.only='kill' -faults.nodes=3 -faults.takeover=lease
//
// All faults of one kind of cluster hit one and the same, long-lived cluster, with
// data on a real disk and default timings. Where root allows, each node is in a
// network namespace of its own. Load never stops for a fault: requests begin at
// their rate whether earlier ones were answered or not, GET and POST, at the nodes
// that a balancer would still send to.
package faults
