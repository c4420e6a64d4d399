// Package election decides when a voter campaigns because its leader does not respond. A stopped
// process and a network partition close no connection, and the election timeout of Raft is
// longer than a lease. Without this package, nodes would be without a lease in between.
//
// The package is pure: it has no goroutine, clock, lock or I/O, and knows Raft as an interface.
// docs/internals/protocol-failures.md explains the rules under "A leader that is missed".
//
// # Types
//
//   - Suspicion is the state machine of one voter. It lives as long as its process.
//   - Report is a voter's reply to another one that asks whether it misses its leader.
//   - Raft is the interface to the Raft server of the voter.
//   - UnansweredHeartbeat is the input: the oldest heartbeat that the leader has not answered.
//
// # Use
//
// One goroutine calls all methods: the one that runs the agent, which sends the heartbeats. It
// calls Poll after each poll of the agent. Poll returns the servers to ask whether they also
// miss their leader, and whether this voter must campaign now.
//
// The goroutine passes replies to RecordReport. A voter that is asked calls RecordRequest and
// replies with Report. To campaign, it makes Raft start an election immediately, as in a leadership
// transfer, and calls CampaignRefused if Raft does not. It passes a late answer of the leader to
// LeaderAlive.
//
// # States
//
//	                 heartbeat unanswered            majority misses it, this voter is next
//	leader answers ──────────────────────► missed ───────────────────────────────────────► candidate
//	       ▲                                 │                                                │
//	       └─────────────────────────────────┴────────────────────────────────────────────────┘
//	                        answer of the leader, later term, or giveUpHeartbeats
//
// A false alarm costs one term. It doubles the timeout for a minute.
package election
