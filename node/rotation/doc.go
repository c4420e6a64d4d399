// Package rotation replaces the secret of the cluster on all nodes, without interruption of service. The
// leader makes all nodes accept a new secret (install), then use it (use), and then reject the old ones
// (retire). Each step is complete on all nodes before the next one starts.
//
//	Lead    ──► round: gather, choose, install, use, retire    at the leader
//	Ask     ──► another node's Lead                            from any node
//	Answer  ──► a step at this node, or Lead                   on its control streams
//
// A holder of only an older secret must neither receive the newer secret by a rotation nor disable it.
// Therefore each request and each response contains proofs of the secrets that its sender has (Proven), and
// package secret decides which steps these secrets permit.
//
// A Rotation belongs to one node. Its methods may be called from any goroutine.
package rotation
