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
// A stopped or killed node whose app works on is outside the guarantee (only
// the epoch fences it): such overlaps must touch a Stop, and are counted apart.
//
// Check is pure. Its tests plant bad histories, each of which it must find.
package history
