// Package rotation replaces the cluster's secret on every node, without a pause: a
// leader has all accept the new one, then use it, then drop the others, each step
// everywhere before the next.
//
//	Lead    ──► round: gather, choose, install, use, retire    at the leader
//	Ask     ──► another node's Lead                            from any node
//	Answer  ──► a step at this node, or Lead                   on its control streams
//
// Whoever has only an older secret shall not get the newer one from it, nor end it:
// what is asked, and what is answered, carries the evidence which secrets its sender
// has (Proven), and package secret decides what they allow.
//
// A Rotation belongs to one node; its methods may be called from any goroutine.
package rotation
