// Package history holds what clients and apps saw of a cluster, and judges it.
//
// It is the one judge of clusters, whether their nodes are processes or share a
// bubble of virtual time. Every process of a test machine stamps what it sees with
// Now, one clock for all of them; in a bubble the bubble's clock does. An app writes
// a Run for each request that reached it, a client an Answer for each request that
// it sent, a test a Fault for whatever it does to a node, and a Map for each that it
// saw committed. Check compares them:
//
//   - each request has exactly one answer, its own; it was tried again only where
//     that must be, and failed only where a fault, which was not over, excuses it;
//   - nothing unsafe ran twice, or after it was denied, and nothing was answered
//     without a run;
//   - no shard ran on two nodes at overlapping times, an ownership epoch belongs
//     to one node, and along a shard's runs it only grows;
//   - nobody was left out of a map to whom nothing was done.
//
// Every excuse has a bound, and each stands once: attempt.go has those of what was
// tried in vain, failure.go those of what failed, map.go those of who was dropped,
// and excuse.go the two overlaps that are outside the guarantee, which are counted
// apart: an app works on while its node is stopped or dead, and a refusal between
// nodes was forged, which only --takeover timeout does not believe. The old owner's run
// must straddle the Fault, and its shard must not be taken sooner than the rules
// allow. An app that refuses such a request, since a store told it that its epoch is
// over, is right to.
//
// Check is pure. Its tests plant bad histories, each of which it must find.
package history
