// Package leader implements the leader's side of the lease and ownership protocol: it decides
// which map to propose, when to commit it, and how long each node may serve. Package ack has
// the replicated state and the messages, and package ack/agent has the other side, the nodes.
//
// The package is pure, like ack: no goroutine, clock, lock or I/O. Package node runs it.
//
// # Types
//
//   - Leader runs map changes (rounds) and grants leases, for one term of one Raft leader. Both
//     jobs are one machine, because they must decide in one step: from the step that submits a
//     commit on, a lease requires an acknowledgement of that very map.
//   - Driver is one iteration of the leader loop. It gives the Leader the newest state, the term
//     and the voters before each message, and repeats the barrier until Raft accepts it.
//   - Message is an input of a Leader, Effect an output.
//   - MemberView is the state of a node from the view of the leader, and Plan the moves of the
//     next map.
//   - FormatUpgrade decides when to raise the format version of the cluster.
//
// The Leader consists of parts. Each part owns its state, and decides from the inputs of a step:
// time, state of the log, and timings. No part calls the Leader, which submits the entries that
// result from the decisions.
//
//	memberTracker, member   what the leader knows about a node, and when its shards may be taken
//	leaseIssuer             which node gets a lease, and for how long
//	timingTracker           the timings by which the leader grants leases and waits for their end
//	membership              which nodes may be in the next map, and why a node may not
//	clusterAppHealth        whether unhealthy apps lose their shards
//	assignment              the next map, and the part of it that may be proposed now
//	stagedMoves, idleShards planned moves: idle shards first, busy ones later
//	gradualDrains           the ends of gradual drains
//	policyQueue             policy changes that are not in the log yet
//	keyConfigChange         when the key configuration changes
//	pendingEntry            the entry on its way into the log
//
// A round is the change from one committed map to the next:
//
//	          reason for a map        every member acknowledged, no excluded owner may serve
//	committed ───────────────► proposed ────────────────────────────────────────► committed
//	                              │  ▲
//	                              └──┘ a member crashed or missed the deadline: another proposal
//
// # The loop of a leader
//
// One goroutine owns the Driver of a server that Raft has elected. It begins with a Tick and ends
// with the term. The loop of the next term begins after it has ended.
//
//	driver := leader.NewDriver(options)
//	perform(driver.Step(leader.Tick{}))
//	for leads(term) {
//		select {
//		case <-tick: // every 10 ms
//			perform(driver.Step(leader.Tick{}))
//		case <-applied: // the log has a newer state
//			perform(driver.Step(leader.Tick{}))
//		case hb := <-heartbeats: // including those of the leader's own node
//			perform(driver.Step(leader.HeartbeatReceived{Heartbeat: hb.Heartbeat, From: hb.address}))
//		case m := <-messages: // results of effects, and observations of other nodes
//			perform(driver.Step(m))
//		}
//	}
//
// perform performs all effects in order before the next Step, which reuses the slice. It only
// starts the slow ones (Submit, Barrier, StepDown); their results are further messages. The loop
// never waits for Raft, because it would renew no leases while it waits.
//
// The caller passes these messages to Step:
//
//   - HeartbeatReceived: a heartbeat of any node, in any order, possibly repeated or late;
//   - Tick: time has passed, or the log has a newer state;
//   - BarrierApplied, BarrierFailed: the result of a Barrier;
//   - SubmitFailed: an entry certainly did not enter the log. An unknown fate is not reported:
//     the log shows it, or the machine steps down;
//   - ConnClosed, CrashEvidence: a heartbeat connection broke, and a redial was refused;
//   - ReleasesReceived: the releases of a node, sent by that node;
//   - IdleShards: the idle shards of a node, in answer to an IdleShardsQuery or during a gradual drain;
//   - NodeRemoved, MapRequested: the requests of an operator.
//
// The driver itself creates TermRead, Voters, StateApplied, KeyConfigLoaded and the start time of
// the first barrier. The effects are
//
//   - Reply: the response to the heartbeat that was passed last. It may be lost;
//   - Submit: an entry for the log. Append a barrier after it without waiting for the result,
//     because followers learn about a commit with the next entry;
//   - Barrier: see "Duties of the caller". It is repeated if it fails;
//   - IdleShardsQuery: a query to a node;
//   - StepDown: transfer leadership. If no server takes it, the machine continues;
//   - Event: for logs and metrics. Nothing depends on it.
//
// Driver.ChangeTiming returns effects like Step, and an entry that the caller must submit
// itself. The state shows the result. ErrNotYet and TooSoonError refuse it.
//
// # Duties of the caller
//
// Raft: three of its properties support the leases.
//
//   - Term and vote are one write, synced before the vote is answered. From then on, Term returns
//     that term or a later one. A heartbeat that names the old term after its server has voted in
//     a newer one could confirm a deposed leader.
//   - Entries are synced before they are acknowledged, so the next leader has every committed
//     entry in its log.
//   - A barrier enters the log after the Driver has begun. When it is reported as applied,
//     NewestState returns everything that earlier leaders committed. If the log has no cluster, the
//     entry of ack.EncodeBootstrap is also applied before BarrierApplied.
//
// Voters are those of the latest configuration in the leader's own log, committed or not.
// The server id names the disk, so that a wiped disk does not confirm for the vote of the old
// one.
//
// A leader remembers the last 64 answers to each node. Older ones confirm nothing.
package leader
