//go:build linux

// Package faults measures the effects of faults on the clients of a cluster of real
// processes, and the cost of a constant load without faults.
//
//	make bench-faults   # TestFaults: the longest time a key got no response, per fault
//	                    # TestMoves: queueing time of a shard that moves by plan, with hooks
//	                    # TestBursts: time without a lease while many connections arrive at once
//	make bench-steady   # TestSteady: false exclusions and time without a lease at 90 % CPU
//
// The tests print durations, in a table next to those of the machine itself and the
// targets, but do not check them. Without their flags they are skipped. To run some of
// the faults:
//
//	go test -v ./e2e/faults -run '^TestFaults$' -faults.trials=5 -faults.only='kill' -faults.nodes=3 -faults.takeover=lease
//
// All faults of one kind of cluster are injected into the same long-lived cluster, with
// data on a real disk and default settings. If permitted, each node is in its own network
// namespace. The load does not depend on a fault: GET and POST requests start at a
// constant rate, at the nodes to which a load balancer would still send.
package faults
