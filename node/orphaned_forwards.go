package node

import (
	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/shardmap"
)

// orphanedForwards aborts requests that this node has forwarded to owners that the map excludes:
// such an owner may never respond (docs/internals/protocol.md, rule 5). Only the goroutine of
// agent.run uses it.
//
// A node that has restarted replays its log, which may contain exclusions of nodes that have returned since. If
// this node has forwarded a request to such a node by its old map, that node refuses the request, and the request
// is retried without harm. If the request was aborted instead, the response to a POST would be that it may have
// run. Therefore, no request is aborted before this node has applied the log up to the epoch that a leader has
// reported.
type orphanedForwards struct {
	log zerolog.Logger
	// abort aborts the forwarded requests that match, and returns their number.
	abort func(func(shardmap.Shard, string) bool) int

	newestProposed shardmap.Epoch // epoch of the newest proposal that a leader has reported; zero means none
	checkPending   bool           // a map was committed since the last check
}

// observeEpoch records the epoch in a leader's response to a heartbeat.
func (f *orphanedForwards) observeEpoch(epoch shardmap.Epoch) {
	f.newestProposed = max(f.newestProposed, epoch)
}

// abortIfCaughtUp aborts the requests that orphaned selects, if a check is pending and this node has
// caught up with the leader. applied is the epoch of the newest proposal in this node's state.
func (f *orphanedForwards) abortIfCaughtUp(applied shardmap.Epoch, orphaned func(shardmap.Shard, string) bool) {
	if !f.checkPending || f.newestProposed == 0 || applied < f.newestProposed {
		return // nothing to check, or this node has not caught up yet
	}
	f.checkPending = false
	if aborted := f.abort(orphaned); aborted > 0 {
		f.log.Info().Int("requests", aborted).Msg("forwarded requests aborted, owner left")
	}
}

// orphanedIn returns a function that reports whether a request for a shard, forwarded to a node, may never get a
// response. That is the case if state excludes the node, the exclusion is newer than this process, and the node
// does not own the shard. lastIndexAtStart is the index of the last log entry at the start of this process.
func orphanedIn(state *ack.State, lastIndexAtStart uint64) func(shardmap.Shard, string) bool {
	return func(shard shardmap.Shard, node string) bool {
		id := shardmap.NodeID(node)
		exclusion, _ := state.Drop(id)
		return excludedSince(exclusion, lastIndexAtStart) && state.Committed().Owner(shard) != id
	}
}

// excludedSince reports whether an exclusion is in force and newer than the log entry lastIndexAtStart.
// An exclusion that was in the log before this process started is older than all requests that this
// process has forwarded. For example, a leader excluded a process, and all nodes were restarted
// before the node was included again.
func excludedSince(exclusion ack.Drop, lastIndexAtStart uint64) bool {
	return exclusion.InForce && uint64(exclusion.Epoch) > lastIndexAtStart
}

// newlyExcluded returns a function that reports whether current contains an exclusion of a node that is not in
// previous. An idle connection to such a node may lead to a process that has exited unnoticed. A non-voter receives
// no other notice that a new process has replaced it.
func newlyExcluded(previous, current *ack.State) func(node string) bool {
	return func(node string) bool {
		before, _ := previous.Drop(shardmap.NodeID(node))
		now, isExcluded := current.Drop(shardmap.NodeID(node))
		return isExcluded && now.Epoch > before.Epoch
	}
}
