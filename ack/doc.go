// Package ack holds the protocol by which nodes agree on a shard map and on who
// may serve: pure machines without goroutines, clock or I/O.
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
// the node's lease. Agent owns both, and does what they call for in the one order
// that keeps G1: lease, table, drain, acknowledge, speak. Every node runs one, the
// leader's node too. Routing is what a state routes.
//
//	             Heard, Tick, Applied …             heartbeats, answers
//	Leader  ──►  Step(now, Message) []Effect   ◄──►  Holder, Follower
//	                   │
//	                   └► Submit ► Raft log ► State.Apply ► Applied ► both
//
// The caller owns each machine from one goroutine. now is the time since an
// origin of the caller's choice on a clock that never runs backwards; two nodes
// never compare theirs. All that is assumed of clocks is that the rates of any
// two differ by less than 10 %.
//
// # The rules
//
// docs/protocol.md names the rules, and what breaks without each; comments here
// say "rule N" and "why N" for them.
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
