//go:build linux

// Package e2e tests whole clusters of the real binary: real processes, sockets
// and disks, with faults.
//
//	history   what clients and apps saw, and the judgement of it
//	app       the app behind each node, which records what runs
//	store     where the apps keep registers: outside, fenced by the epoch
//	load      the clients
//	register  whether each key was one register
//	kept      WebSockets that stay open, both ends of them and their judge
//	cluster   processes, their control and their state
//	relay     holds back single streams between nodes (Raft but not heartbeats)
//	netns     cuts wires between nodes, loses packets, forges refusals
//	badisk    disks that are full, slow or broken
//	urgent    processes that have the processor whenever they want it
//	chaos     all faults, again and again, each round judged
//	bench     what a request costs, beside nginx and HAProxy
//
// The tests assert counts and states, never seconds: nothing failed, nothing was
// lost, nothing ran twice, one owner, as many moves as there must be. Times are
// printed by the benchmarks, beside what the machine itself takes for a fsync, a
// connection and a round trip in the same run:
//
//	go test -run '^$' -bench . -benchtime 20x ./e2e
//
// SHARDWAY_E2E_KEEP=1 keeps data and logs. Tests that cut wires need root.
package e2e
