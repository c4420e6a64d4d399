package history

// Admission is a time in which somebody who asked a node again and again was told
// each time that it would run requests for a shard, under an ownership epoch. It
// is judged as a run is, but no fault excuses one of an old owner beside the next:
// only what --takeover immediate believes may.
type Admission struct {
	Node        string
	Shard       uint32
	Epoch       uint64
	From, Until int64
}

func (a *Admission) run() Run {
	return Run{App: a.Node, Node: a.Node, Shard: a.Shard, Epoch: a.Epoch, Start: a.From, End: a.Until, ID: "(asked)", asked: true}
}
