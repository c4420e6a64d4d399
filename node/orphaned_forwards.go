package node

import (
	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/shardmap"
)

// forsaken frees what this ingress has forwarded to owners that are gone from the map:
// they may never answer (docs/internals/protocol.md, rule 5).
//
// A node that comes back goes through its log, and meets there nodes that were dropped
// long ago and are back since. What it forwarded to one of them meanwhile, by the old
// map that it began with, is refused by that node in a moment, and goes on unharmed;
// given up, a POST would be answered that it may have run. So nothing is given up
// before the log is where a leader has said that it is.
type orphanedForwards struct {
	log   zerolog.Logger
	abort func(func(shardmap.Shard, string) bool) int

	newestProposed shardmap.Epoch // of the last proposal that a leader has spoken of; 0: none has
	checkPending   bool           // a map came since the last look
}

// heard takes the epoch of an answer.
func (f *orphanedForwards) observeEpoch(epoch shardmap.Epoch) {
	f.newestProposed = max(f.newestProposed, epoch)
}

// look frees what there is to be freed by a state whose last proposal is of an epoch.
func (f *orphanedForwards) abortIfCaughtUp(applied shardmap.Epoch, orphaned func(shardmap.Shard, string) bool) {
	if !f.checkPending || f.newestProposed == 0 || applied < f.newestProposed {
		return
	}
	f.checkPending = false
	if n := f.abort(orphaned); n > 0 {
		f.log.Info().Int("requests", n).Msg("forwarded requests aborted, owner left")
	}
}

// goneFrom tells of a forwarded request by its shard and the node that it went to whether
// that one is dropped in s, since this process began, and does not own the shard. before is
// the last entry of the log as this process found it.
func orphanedIn(s *ack.State, lastAtStart uint64) func(shardmap.Shard, string) bool {
	return func(sh shardmap.Shard, node string) bool {
		id := shardmap.NodeID(node)
		exclusion, _ := s.Drop(id)
		return excludedSince(exclusion, lastAtStart) && s.Committed().Owner(sh) != id
	}
}

// forsakes reports whether a drop may be about what this process has forwarded. One that
// its log had before it began is older than all of that: a leader had dropped a process
// that has ended since, say, and all nodes were started again before it was taken back.
func excludedSince(d ack.Drop, lastAtStart uint64) bool {
	return d.InForce && uint64(d.Epoch) > lastAtStart
}

// droppedSince tells of a node whether s remembers a drop of it that old did not know. What is
// kept to such a one may lead to a process that has ended out of sight, and who has no vote is
// told by nobody that another one has followed.
func newlyExcluded(old, s *ack.State) func(node string) bool {
	return func(node string) bool {
		before, _ := old.Drop(shardmap.NodeID(node))
		now, ok := s.Drop(shardmap.NodeID(node))
		return ok && now.Epoch > before.Epoch
	}
}
