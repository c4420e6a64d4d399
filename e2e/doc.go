//go:build linux

// Package e2e tests whole clusters of the real binary: real processes, sockets and disks, with
// injected faults.
//
// The name of a test file begins with its subject: app, bootstrap, client, config, crash,
// diagnosis, disk, docs, hooks, keys, lease, membership, network, rolling, secret, shards,
// shutdown, stream, websocket.
//
// Suites below this directory:
//
//	chaos      all kinds of faults in random order, each round with checks
//	faults     how long requests are affected by each fault
//	recipes    apps that others wrote, with their sessions
//	dashboard  the pages of the dashboard in a browser
//	bench      the cost of a request in comparison with nginx and HAProxy
//
// Kits below e2e/kit:
//
//	cluster      processes of a cluster, their control and their state
//	testapp      the app behind each node, which records its requests
//	load         clients that send requests and record the responses
//	history      records of clients and apps, and their checker
//	store        external store of the apps, with fencing by epoch
//	linear       checks whether the registers of the apps are linearizable
//	wsresume     resumable WebSockets: apps, clients and a checker
//	netns        network faults: partitions, packet loss, forged resets
//	peerproxy    delays single streams between nodes, such as Raft without heartbeats
//	faultfs      disks that are full, slow or broken
//	dnsserver    a DNS server with changing addresses
//	browser      controls Chromium
//	procgroup    child processes that die with the test
//	rtprio       real-time priority for processes of a test
//	mutants      builds with planted bugs, for tests of the checkers
//	nextversion  a build of a later version, for tests of upgrades
//	retest       repeats tests that failed because the machine was not available
//
// The tests check counts and states, never durations: no failed request, no lost write, no
// request that ran twice, one owner per shard, and the minimum number of shard moves. The
// benchmarks print durations, together with those of an fsync, a connection and a round trip
// on the same machine:
//
//	go test -run '^$' -bench . -benchtime 20x ./e2e
//
// SHARDWAY_E2E_KEEP=1 keeps data and logs. Tests that inject network faults need root.
package e2e
