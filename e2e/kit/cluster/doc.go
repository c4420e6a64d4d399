//go:build linux

// Package cluster runs whole clusters of real processes for a test: nodes, the recording
// app of each node, and functions that inject faults and observe the cluster.
//
//	c := cluster.Start(t, cluster.Options{Binaries: b, Nodes: 3})
//	l := c.Load(t, c.Nodes()[1:], cluster.Traffic{Rate: 200})
//	c.Node("a").Kill(t)
//	c.AwaitServing(t)
//	l.Finish(t) // no failed request, no lost write, one owner per shard
//
// Every process is a child that dies with the test, in its own process group, and is
// stopped by its process ID. Ports are below 32768 and reserved for the test until it
// ends. Data directories and logs are in memory (/dev/shm). The logs are printed when the
// test fails, and remain when SHARDWAY_E2E_KEEP is set.
//
// A cluster is observed from its start to its end: every committed map that a node
// reports is recorded. Two maps with one epoch, or a panic in a log, fail the test.
//
// A function with a testing.TB argument fails that test at once. Each wait polls for a
// condition, with a timeout that only a broken cluster reaches.
package cluster
