//go:build linux

// Package chaos injects faults into whole clusters of real processes and checks the
// results.
//
// Run starts a cluster whose nodes run in separate network namespaces, and tests it in
// rounds. In a round, several clients send requests with new keys to all nodes, and one or
// two faults begin and end. A round is over when all nodes serve again and report the same
// map without orphaned shards. (A round of this package is not a round of package ack, the
// change from one map to the next.) Then the round is checked:
//   - Each request has one response, and no unsafe request ran twice.
//   - No two nodes ran requests of a shard at overlapping times.
//   - Registers are linearizable.
//   - Counters that apps store in their hooks continue.
//   - Apps that cache lose no write, except in shards that a node reported as returned to an
//     old copy.
//   - Moving keys do not wait for a slow request of another key.
//   - Resumable event streams neither miss nor repeat an event, and planned moves do not break
//     them.
//   - Every failed request has an excuse.
//
// At the end, all runs of all rounds are checked once more, together.
//
// A request may fail only after a fault of its ingress node or of an owner of its key. It must
// fail between the start of the fault and the time when all nodes serve again, and only in the
// ways that history.Check permits. Many faults of this package do not make a node fail, for
// example operator requests and planned restarts of a process or an app. No request may fail in
// their rounds.
//
// The seed alone selects the faults, their order and their parameters. It does not
// determine which node is leader. A failure prints the seed, the schedule, the trace and
// the ends of the logs:
//
//	go test ./e2e/chaos -run TestChaos -chaos.seed=7            # the same schedule
//	go test ./e2e/chaos -run TestChaos -chaos.faults='^kill'    # only some faults
//	go test ./e2e/chaos -run TestChaos -chaos.for=20m -v        # a soak test with its table
//
// Each kind of fault has its own file: kill, pause, shutdown, hold, operator,
// slow_request, network, app, instance, disk, membership, hooks, client. One goroutine owns all
// data of a run.
package chaos
