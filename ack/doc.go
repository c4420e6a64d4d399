// Package ack holds the protocol by which nodes agree on a shard map and on who
// may serve: pure machines without goroutines, clock or I/O.
//
// docs/internals/protocol.md has the words, the guarantees and the rules, and what breaks
// without each; comments here say "G1", "rule N" and "why N" for them. This page
// tells how the machines are driven. The example is the whole loop in small; package
// node is the one over Raft and sockets.
//
// # The machines
//
// State is the replicated state. It is immutable: Apply takes one log entry and
// returns the next State. It alone decides which proposal counts and which
// commit is void, so a leader that acts on old knowledge can do no harm.
//
// Leader runs a map change (a round) and grants leases. It lives for one term of
// one Raft leader; a new term makes a new Leader. Both jobs are one machine
// because they must decide in one step: from the step that submits a commit on,
// a lease needs an acknowledgement of that very map.
//
// Turn is the loop of a Leader without its waiting: it looks at the log before what
// was learnt after it, reads term and voters before each message, and tries the
// barrier again until Raft takes it.
//
// Follower tells what its node must stop, drain and acknowledge. Holder keeps
// the node's lease.
//
// Agent owns both, and does what they call for in the one order that keeps G1:
// lease, table, drain, acknowledge, speak. Every node runs one, the leader's node
// too.
//
// Doubt tells a voter when to stand for election because its leader is missed.
//
// Routing is what a state routes: for each shard whether its requests are run here,
// forwarded, or held, and why. An Agent publishes one whenever it changes.
//
//	             Heard, Tick, Applied …             heartbeats, answers
//	Leader  ──►  Step(now, Message) []Effect   ◄──►  Holder, Follower
//	                   │
//	                   └► Submit ► Raft log ► State.Apply ► Applied ► both
//
// A caller drives three of them: State, one Turn while its server leads, and one
// Agent as long as its process lives. The others are their parts.
//
// # A node's loop
//
// One goroutine owns the Agent. It waits for whatever may have changed, and looks:
//
//	agent := ack.NewAgent(options, clock())
//	for {
//		select {
//		case <-tick: // every 10 ms
//		case <-applied: // the log has a newer state
//		case <-ended: // a request ended that Running had counted
//		case <-speak: // the app's health changed
//			agent.HeartbeatNow()
//		case r := <-results: // of a call to the app
//			agent.Called(r)
//		case o := <-asked: // the app says it does not hold a shard
//			agent.NotAcquired(o.shard, o.epoch)
//		case ans := <-answers:
//			heed(agent.Answered(clock(), ans))
//		}
//		now := clock()
//		agent.Look(now, ack.Seen{State: newest(), …})
//	}
//
// Everything but answers, results and what the app asks for is a hint: Look looks at all that it was given, so a
// hint may come late, twice or for nothing. A lost one costs a tick. Look speaks to
// the leader by AgentOptions.Send and to the requests by the Gate; it waits for
// neither.
//
// An answer is obeyed by the Look that follows it. What Answered returns is for the
// process: after DiskRolledBack and DuplicatePersists it must stop, after DiskRolledBack its disk must
// not be used any more; the other verdicts are for logs and status.
//
// With AgentOptions.Hooks the app is told which shards it holds. Look begins the calls,
// by App.Call, and waits for none; what came of each is told by Called. Only what the
// app has acquired is routed here. HookOptions.Deliver takes to the leader, beside the
// heartbeats, what was released. Without Hooks nothing of that happens.
//
// After each Look of a voter's Agent its Doubt looks, too, at what that waits for. It says
// which servers are to be asked whether they miss their leader, what they say comes back by
// Heard, and who is asked tells it by Asked and replies what it Says. When it is to stand
// for election, the caller has Raft stand at once, as if leadership were handed over.
//
// A node that leaves says Leaving until it owns nothing any more, or until MapStays
// tells that nobody takes its shards, and then Parting.
//
// # A leader's loop
//
// One goroutine owns the Turn of a server that Raft has elected. It begins with a
// Tick, and ends when the term does. The next one begins after it has ended.
//
//	turn := ack.NewLeaderDriver(options)
//	perform(turn.Take(ack.Tick{}))
//	for leads(term) {
//		select {
//		case <-tick: // every 10 ms
//			perform(turn.Take(ack.Tick{}))
//		case <-applied: // the log has a newer state
//			perform(turn.Take(ack.Tick{}))
//		case hb := <-heartbeats: // the own node's, too
//			perform(turn.Take(ack.Heard{Heartbeat: hb.Heartbeat, From: hb.address}))
//		case m := <-messages: // what became of an effect, and what was seen of others
//			perform(turn.Take(m))
//		}
//	}
//
// perform does the effects in their order, and all of them before the next Take,
// which uses the slice again. What takes long (Submit, Barrier, StepDown) is begun
// there and goes on elsewhere; what comes of it is one more message. The loop never
// waits for Raft, for in that time it would renew no lease.
//
// The caller tells a Turn
//
//   - Heard: a heartbeat, of any node, in any order, also twice or late;
//   - Tick: that time has passed, or that the log has a newer state;
//   - BarrierApplied, BarrierFailed: what became of a Barrier;
//   - SubmitFailed: that an entry certainly did not enter the log. An unknown fate is
//     not told: the log tells it, or the machine steps down;
//   - Closed, Evidence: that a heartbeat connection broke, and that a redial was
//     refused;
//   - Delivered: what a node gives up shards with, as it came from that very node;
//   - Remove: an operator's word.
//
// TermRead, Voters, Applied, and when the first barrier was issued are the Turn's own
// to tell. The effects are
//
//   - Reply: the answer to the heartbeat just taken, for whoever sent that one. It may
//     be lost;
//   - Submit: an entry for the log. Apply it with a barrier behind it that nobody waits
//     for, because followers learn of a commit with the next entry;
//   - Barrier: see below. It is tried again when it failed;
//   - StepDown: hand leadership over. If nobody takes it, the machine goes on;
//   - Noted: for logs and metrics. Nothing depends on it.
//
// Turn.Retime returns effects as Take does, and an entry that the caller submits itself:
// what came of it is in the state.
//
// # The log
//
// A node applies each entry once, in the log's order, to the State of the one before,
// and publishes the result for its loops to read. Any number of goroutines may read a
// State. A snapshot is State.MarshalBinary, and DecodeState brings it back. What the
// loops are given never goes back: when a log is gone through again in the same
// process, the newest state stays until the log has passed it.
//
// After an entry that Apply refuses the node stops: nothing is published any more, and
// no snapshot is made, because it would stand for that entry, too. An entry that Apply
// ignores is no error: it came too late, and every node ignores it alike.
//
// # What the caller guarantees
//
// No machine can check these, and the guarantees rest on them.
//
// One goroutine for each machine: none has a lock, and none may be called from a
// function that it has called, so Send and the Gate put down what they are given.
//
// The clock. now is the time since an origin of the caller's choice on a clock that
// never runs backwards, and that counts the time for which the machine was suspended.
// Two nodes never compare theirs. All that is assumed of clocks is that the rates of
// any two differ by less than 10 %. It is read before the call that it is given to: a
// lease counts from the now of the Look that sent the heartbeat, and a clock read after
// that would make it too long. The Gate goes by the clock of its Agent, and what
// Evidence says of time by that of its Turn; they may be the same one.
//
// The boot. A process takes the lock of its disk, raises the boot there, has it synced,
// and then makes its Agent: a boot that is sent is on disk. AgentOptions.Raise does the
// same within a process. The nonce is random for each process. The peer listener is up
// before the first heartbeat: to a leader a refused redial is evidence of a crash.
//
// Raft. Three of its duties carry leases:
//
//   - Term and vote are one write, synced before the vote is answered, and what Term
//     returns from then on is that term or a later one. A heartbeat that names the old
//     term after its server has voted in a newer one may confirm a deposed leader.
//   - Entries are synced before they are answered. So what is committed is in the log of
//     whoever is elected next.
//   - A barrier enters the log after the Turn has begun, and has been applied when it is
//     reported: Newest then returns all that earlier leaders committed. If the log has no
//     cluster, EncodeBootstrap's entry is applied, too, before BarrierApplied is told.
//
// Voters are those of the latest configuration in the leader's own log, committed or
// not. The server id names the disk, so that an emptied one does not confirm for the
// vote that the old one gave.
//
// The Gate. Whoever admits a request counts it first, and looks at table and lease
// then. The agent publishes first, and counts then. So one of the two sees the other;
// the other way round a request slips in between, and the node acknowledges while it
// runs. A request counts until nothing of it runs any more, and admission ends with the
// lease by the clock, not with the Look that notices. Forwarding needs no lease.
//
// The App. Each Call has one result, told when nothing of the call runs any more, cut or
// not; Busy counts as the Gate does.
//
// The messages. They may be lost, late, repeated or out of order. They must not be
// forged: the machines believe what a heartbeat says of its sender and what an answer
// says of the leader, so the transport must know who speaks.
//
// # Errors and limits
//
// ErrCorrupt is an entry, a snapshot or a message that no program of the levels from
// MinLevel to MaxLevel wrote; of another level it is a LevelError. A message like that
// is dropped with its connection; an entry or a snapshot stops the node. What is written
// has the level of the applied state, and an answer the heartbeat's.
//
// ErrNotYet and TooSoonError refuse a Retime, ErrNoBackup a file. No input from outside
// makes a machine panic.
//
// A heartbeat or an answer has at most MaxMessage bytes. A node's id has 1 to
// shardmap.MaxID bytes; its server id begins with it and a slash, and has 128 bytes at
// most. A weight is 1 to shardmap.MaxWeight. Marshalling does not check: the receiver
// refuses. A map has at most shardmap.MaxMembers members, a cluster at most MaxShards
// shards, a Timing stays within MaxLease and MaxDeadAfter. The bounds between the parts
// of a Timing, and between it and a Pace, are the caller's to check. A leader remembers
// at most 64 answers to each node, and a node its last 64 heartbeats: what echoes or
// answers one that is forgotten confirms and grants nothing.
//
// # What it does not do
//
//   - It elects nobody, and changes no Raft configuration.
//   - It finds no nodes, dials none, and knows no addresses but to tell them.
//   - It proves nobody's identity, and bears no node that lies.
//   - It hashes no keys, and holds, forwards and repeats no requests: a Routing says
//     only which of these is due.
//   - It ends nothing that runs. Cut asks for that, and what an app goes on doing after
//     it only the ownership epoch can fence.
//   - It writes nothing to disk. A lease is never stored: a new process begins without.
//
// # How it is shown
//
// testdata tells the protocol's stories line by line (`go test ./ack -run
// Dialogues`, -update writes them anew). The simulation plays the machines as
// package node drives them over a model of Raft, clocks, disks, networks and
// requests, and judges the guarantees by what no node can know:
//
//	go test ./ack -run '^TestSimulation$' -v -sim.schedules=100000
//	go test ./ack -run '^TestSimulation$' -v -sim.mix=MIX -sim.seed=N  (one again, with its trace)
//	go test ./ack -run '^$' -fuzz FuzzAnyOrder
//
// TestEveryMistakeIsCaught plants the mistakes that the rules are there for, and
// those that the simulation found, and lets it find them again.
package ack
