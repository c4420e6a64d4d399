package history

// Admission is an interval in which a node would have run requests for a shard under an
// ownership epoch. The test asked the node repeatedly, and every reply in the interval was
// positive. Check treats an Admission as a Run, with one difference. Only --takeover
// immediate excuses an old owner whose admission overlaps the next owner. No other fault
// does, because a node without a lease admits nothing.
type Admission struct {
	Node        string
	Shard       uint32
	Epoch       uint64
	From, Until int64
}

func (a *Admission) asRun() Run {
	return Run{App: a.Node, Node: a.Node, Shard: a.Shard, Epoch: a.Epoch, Start: a.From, End: a.Until, ID: "(admission)", fromAdmission: true}
}
