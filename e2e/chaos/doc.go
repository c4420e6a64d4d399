//go:build linux

// Package chaos hurts whole clusters of real processes and judges what came of
// it.
//
// Run starts a cluster whose nodes live in network namespaces of their own, and
// works in rounds. A round has keys of its own, load from several clients to all
// nodes, a fault (or two), its healing, and an end: all nodes serve again and
// report the same map without orphans. Then the round is judged: every request
// has one answer, nothing unsafe ran twice, no two nodes ran requests of a shard
// at overlapping times, registers are linearizable, counters that apps carry by their
// hooks go on, apps that cache lose no write but in shards of which a node says that they
// returned to an old copy, keys that move do not wait for a slow request of another key,
// event streams that say that they can go on miss no event, have none twice and are not cut by what is planned, and what failed had to. At
// the end of the run all runs of all rounds are judged once more, together.
//
// A request may fail only while something hurt its ingress node or an owner of
// its key, between the beginning of the fault and the moment when all serve again,
// and only in the ways of history.Check. Most faults hurt nobody in this sense:
// nothing may fail then.
//
// Which faults come, in which order and with which figures, follows from the seed
// alone; which node is the leader then does not. A failure prints the seed, the
// schedule, what happened when, and the ends of the logs:
//
//	go test ./e2e/chaos -run TestChaos -chaos.seed=7            # the schedule again
//	go test ./e2e/chaos -run TestChaos -chaos.faults='^kill'    # some faults only
//	go test ./e2e/chaos -run TestChaos -chaos.for=20m -v        # a soak, with its table
//
// What operators ask, and restarts of a process or of an app, are no faults in this sense.
//
// Each kind of fault has a file: kill, pause, term, hold, plan, slow, wire, app, disk, member, hooks. All of
// a run belongs to one goroutine.
package chaos
