//go:build linux

// Package cluster runs whole clusters of real processes for a test: nodes, the
// recording app behind each, and what it takes to hurt and to watch them.
//
//	c := cluster.Start(t, cluster.Options{Binaries: b, Nodes: 3})
//	l := c.Load(t, c.Nodes()[1:], cluster.Traffic{Rate: 200})
//	c.Node("a").Kill(t)
//	c.AwaitServing(t)
//	l.Finish(t) // nothing failed, nothing lost, one owner
//
// Every process is a child that dies with the test, in a process group of its
// own, and is stopped by its pid. Ports lie below 32768 and belong to the test
// until it ends. Data directories and logs are in memory (/dev/shm); they are
// printed when the test failed, kept when SHARDWAY_E2E_KEEP is set.
//
// From its start to its end a cluster is watched: every committed map that any
// node reports is kept, and one epoch that names two maps fails the test, as
// does a panic in a log.
//
// What takes a testing.TB fails that test at once; waiting is for a condition,
// with a bound that only a broken cluster reaches.
package cluster
