//go:build linux

// Package history holds what clients and apps saw of a cluster, and judges it.
//
// Every process of a test machine stamps what it sees with Now, one clock for
// all of them. An app writes a Run for each request that reached it, a client
// an Answer for each request that it sent. Check compares the two:
//
//   - each request has exactly one answer, its own, and nothing failed;
//   - nothing unsafe ran twice, and nothing was answered without a run;
//   - no shard ran on two nodes at overlapping times, an ownership epoch belongs
//     to one node, and along a shard's runs it only grows.
//
// Two overlaps are outside the guarantee, and counted apart: an app works on while
// its node is stopped or dead, and a refusal between nodes was forged, which only
// --fence strict does not believe. The old owner's run must straddle the Stop or
// the Reset; excuse.go says how exactly. An app that refuses such a request, since
// a store told it that its epoch is over, is right to.
//
// Check is pure. Its tests plant bad histories, each of which it must find.
package history
