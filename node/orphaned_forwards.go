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
type forsaken struct {
	log     zerolog.Logger
	abandon func(func(shardmap.Shard, string) bool) int

	newest shardmap.Epoch // of the last proposal that a leader has spoken of; 0: none has
	owed   bool           // a map came since the last look
}

// heard takes the epoch of an answer.
func (f *forsaken) heard(epoch shardmap.Epoch) { f.newest = max(f.newest, epoch) }

// look frees what there is to be freed by a state whose last proposal is of an epoch.
func (f *forsaken) look(last shardmap.Epoch, gone func(shardmap.Shard, string) bool) {
	if !f.owed || f.newest == 0 || last < f.newest {
		return
	}
	f.owed = false
	if n := f.abandon(gone); n > 0 {
		f.log.Info().Int("requests", n).Msg("forwarded requests aborted, owner left")
	}
}

// goneFrom tells of a forwarded request by its shard and the node that it went to whether
// that one is dropped in s, since this process began, and does not own the shard. before is
// the last entry of the log as this process found it.
func goneFrom(s *ack.State, before uint64) func(shardmap.Shard, string) bool {
	return func(sh shardmap.Shard, node string) bool {
		id := shardmap.NodeID(node)
		d, _ := s.Drop(id)
		return forsakes(d, before) && s.Committed().Owner(sh) != id
	}
}

// forsakes reports whether a drop may be about what this process has forwarded. One that
// its log had before it began is older than all of that: a leader had dropped a process
// that has ended since, say, and all nodes were started again before it was taken back.
func forsakes(d ack.Drop, before uint64) bool { return d.InForce && uint64(d.Epoch) > before }

// droppedSince tells of a node whether s remembers a drop of it that old did not know. What is
// kept to such a one may lead to a process that has ended out of sight, and who has no vote is
// told by nobody that another one has followed.
func droppedSince(old, s *ack.State) func(node string) bool {
	return func(node string) bool {
		was, _ := old.Drop(shardmap.NodeID(node))
		d, ok := s.Drop(shardmap.NodeID(node))
		return ok && d.Epoch > was.Epoch
	}
}
