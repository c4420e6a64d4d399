package shardmap

// Move is the change of the owner of a shard. An empty id means that the shard is orphaned.
type Move struct {
	Shard    Shard
	From, To NodeID
}

// Diff returns the shards that have different owners in from and to, in ascending order. It ignores
// epochs and weights. A shard that is missing in one of the maps counts as orphaned there.
func Diff(from, to *Map) []Move {
	var moves []Move
	converted := from.translationTo(to.members)
	for shard := range max(from.Len(), to.Len()) {
		fromOwner, toOwner := from.ownerIndexOrNone(shard), to.ownerIndexOrNone(shard)
		// newIndex also returns noOwner for an owner that is not in to: this case is a move.
		if converted.newIndex(fromOwner) == toOwner && (toOwner != noOwner || fromOwner == noOwner) {
			continue
		}
		move := Move{Shard: Shard(shard)}
		if fromOwner != noOwner {
			move.From = from.members[fromOwner].ID
		}
		if toOwner != noOwner {
			move.To = to.members[toOwner].ID
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
