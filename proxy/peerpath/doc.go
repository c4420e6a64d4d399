// Package peerpath detects nodes that have become unreachable while requests wait for their
// responses. Without it, a request would wait until the retransmissions of the kernel time out.
//
// The sweep of package proxy visits the running requests several times per second. For each request
// at another node it asks the Detector whether the network path to that node is dead:
//
//	Begin ─► Ping, IsDead for each request ─► next sweep
//
// A path is dead if data or two probes were not acknowledged for a second (h1.Conn.CheckPath). It is
// suspect after one unanswered probe. A suspect path is treated as dead if no connection to the node
// has received data for a second, and probes on at least two connections are unanswered.
//
// All streams of a multiplexed session share one connection, and therefore one result per sweep.
// The Detector belongs to the sweeping goroutine.
package peerpath
