package shardmap

// Move is the change of the owner of a shard, which is an instance of a node. An empty id means that
// the shard is orphaned. From and To are equal if the shard moves between two instances of a node.
type Move struct {
	Shard                    Shard
	From, To                 NodeID
	FromInstance, ToInstance Instance
}

// IsWithinNode reports whether the shard moves between two instances of one node.
func (m Move) IsWithinNode() bool { return m.From == m.To }

// Diff returns the shards that have different owners or instances in from and to, in ascending
// order. It ignores epochs and weights. A shard that is missing in one of the maps counts as orphaned there.
func Diff(from, to *Map) []Move {
	var moves []Move
	converted := from.translationTo(to.members)
	for shard := range max(from.Len(), to.Len()) {
		fromOwner, toOwner := from.ownerIndexOrNone(shard), to.ownerIndexOrNone(shard)
		// newIndex also returns noOwner for an owner that is not in to: this case is a move.
		isSameNode := converted.newIndex(fromOwner) == toOwner && (toOwner != noOwner || fromOwner == noOwner)
		if isSameNode && from.instanceOf(shard) == to.instanceOf(shard) {
			continue
		}
		move := Move{Shard: Shard(shard)}
		if fromOwner != noOwner {
			move.From, move.FromInstance = from.members[fromOwner].ID, from.instanceOf(shard)
		}
		if toOwner != noOwner {
			move.To, move.ToInstance = to.members[toOwner].ID, to.instanceOf(shard)
		}
		moves = append(moves, move)
	}
	return moves
}

// ownerIndexOrNone returns the owner index of the shard, or noOwner if m has no such shard.
func (m *Map) ownerIndexOrNone(shard int) int16 {
	if shard >= len(m.owners) {
		return noOwner
	}
	return m.owners[shard]
}
