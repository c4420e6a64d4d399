// Package agent implements the node's side of the lease and ownership protocol. It holds the
// node's lease, drains the shards that a proposed map takes away, calls the app's hooks, and
// acknowledges the map. Package ack/leader is the leader's side, and package ack has the terms and
// rules of both.
//
// The package is pure, like ack: no goroutine, clock, lock or I/O. Package node runs it.
//
// # Types
//
//   - Agent owns all other types. It acts in the one order that guarantees G1: lease, routing,
//     drain, acknowledgement, heartbeat.
//   - LeaseHolder holds the lease of the node. Follower determines what the node must drain, and what
//     it has acknowledged.
//   - Gate is the interface to the admission of requests. App is the interface to the app, for
//     hook calls.
//   - hookMachine decides which hook calls start for which shards. Its parts own their state and do
//     not call back: runningCalls, nodeProcess, releaseDeadlines, acquireFailures, safeDrain and
//     releaseDelivery.
//   - HookCall is a call that tells the app which shards it acquires, releases or has lost.
//     HookResult is its result, and HeldShardView the state of a shard at the app.
//   - AppWatch determines since when the current process of the app has run. It is independent of
//     the Agent.
//
// A shard at an app with hooks has these phases:
//
//	gone ──► acquiring ──► serving ──► releasing ──► gone
//	  │  owned     │ acquired   │ moves      │ released, or its time is over
//	  ◄────────────┴────────────┘ another node owns it
//
// # The loop of a node
//
// One goroutine owns the Agent and calls all its methods. It waits for any change of its inputs,
// and then polls:
//
//	a := agent.New(options, clock())
//	for {
//		select {
//		case <-tick: // every 10 ms
//		case <-applied: // the log has a newer state
//		case <-ended: // a request ended that Running had counted
//		case <-healthChanged: // the health of the app changed
//			a.HeartbeatNow()
//		case r := <-results: // of a call to the app
//			a.HookEnded(r)
//		case o := <-notAcquired: // the app reports that it does not hold a shard
//			a.ShardNotAcquired(o.shard, o.epoch)
//		case ans := <-answers:
//			handle(a.HandleAnswer(clock(), ans))
//		}
//		now := clock()
//		a.Poll(now, agent.Observation{State: newest(), …})
//	}
//
// Answers, hook results and requests of the app are inputs. Everything else is only a hint, because
// Poll checks all its inputs: a hint may be late, repeated or unnecessary, and losing one costs a
// tick. Poll sends heartbeats with Options.SendHeartbeat and controls requests with the Gate. It
// waits for neither.
//
// The Poll after HandleAnswer acts on the response. The AnswerResult is for the process: it must
// stop after DiskRolledBack and DuplicatePersists, and after DiskRolledBack its disk must no longer
// be used. The other results are for logs and status.
//
// With Options.Hooks, hook calls inform the app about the shards that it acquires, releases or has
// lost. Poll starts the calls with App.StartCall and does not wait for them. HookEnded reports each
// result. Requests for a shard are routed to the app only after it has acquired the shard.
// HookOptions.SendReleases sends releases to the leader, separately from heartbeats.
//
// On a voter, the caller calls election.Suspicion.Poll with Agent.UnansweredHeartbeat after each
// Agent.Poll, and does what it returns.
//
// A node that leaves sets Observation.Leaving until it no longer owns a shard, or until
// MapUnchanged reports that no node takes its shards, and then Observation.Stopping.
//
// # Duties of the caller
//
// Boot (the incarnation number of SWIM): a process locks its disk, increments the boot there, syncs
// it, and then creates its Agent, so every boot that is sent is on disk. Options.RaiseBoot does the
// same within a process. The nonce is random for each process. The peer listener is open before the
// first heartbeat, because the leader takes a refused redial as evidence of a crash.
//
// Gate: it counts a request before it checks routing and lease. The agent publishes before it asks
// for the count, so one of the two sees the other. In the opposite order, a request could slip in
// between, and the node would acknowledge while the request runs. A request counts until no part of
// it is running. Admission ends when the lease does, by the clock, not with the Poll that notices.
// Forwarding needs no lease.
//
// App: each Call has exactly one result, reported once no part of the call is running, even after
// CancelCall. CountRequests counts like the Gate.
//
// A node remembers its last 64 heartbeats. A response to an older one grants nothing.
package agent
