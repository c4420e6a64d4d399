package history

// shardOwners determines the owners of shards from the committed maps and from the runs.
type shardOwners struct {
	maps mapTimeline
	runs *runIndex
}

// ownersDuring returns the nodes that may have owned a shard at any time of an interval, according
// to the maps and to the runs.
func (so *shardOwners) ownersDuring(shard uint32, from, until int64) map[string]bool {
	owners := make(map[string]bool)
	so.maps.addOwners(owners, shard, from, until)
	so.runs.addOwners(owners, shard, from, until)
	delete(owners, "")
	return owners
}

// nextOwnerStart returns when another node began to run requests of a shard as its next
// owner. It counts from the start of the fault, or from the last time that the faulty
// node regained the shard: a node that receives half of its messages is excluded, joins
// again, and is excluded again.
func (so *shardOwners) nextOwnerStart(fault *Fault, shard uint32, done int64) int64 {
	from := max(fault.From, so.maps.lastRegainedAt(fault, shard, done))
	epochBefore := uint64(0) // highest ownership epoch up to that time
	for _, run := range so.runs.byShard[shard] {
		isNextOwner := run.Epoch > epochBefore && !fault.affects(run.App)
		switch {
		case run.Start <= from:
			epochBefore = max(epochBefore, run.Epoch)
		case isNextOwner:
			return run.Start
		}
	}
	return never
}
