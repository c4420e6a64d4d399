package history

// Admission is an interval in which a node, asked repeatedly, replied each time that it
// would run requests for a shard under an ownership epoch. Check treats it as a Run, with
// one difference: only --takeover immediate excuses an admission of an old owner that
// overlaps the next owner. No other fault does.
type Admission struct {
	Node        string
	Shard       uint32
	Epoch       uint64
	From, Until int64
}

func (a *Admission) asRun() Run {
	return Run{App: a.Node, Node: a.Node, Shard: a.Shard, Epoch: a.Epoch, Start: a.From, End: a.Until, ID: "(admission)", fromAdmission: true}
}
