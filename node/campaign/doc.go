// Package campaign starts Raft elections before Raft's own election timeout, so that a cluster has no leader only
// for a short time.
//
// A voter campaigns in two cases:
//
//   - The process of the leader has ended (Campaigner.OnLeaderEnded). Package crashdetect detects that.
//   - Most voters receive no responses from the leader to their heartbeats (Suspicion). Package
//     ack/election decides when this voter campaigns.
//
// The goroutine of the agent owns a Suspicion and calls Start and Poll. Report, and all methods of
// Campaigner, may be called from any goroutine.
package campaign
