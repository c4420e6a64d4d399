package scale

import (
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
)

// entryOverhead is the overhead of Raft for an entry in an append.
const entryOverhead = 120

// append appends an entry, or a barrier, to the log and returns its index. The entry is
// applied once, because all nodes get the same state, and each node is charged the cost.
func (s *Sim) append(data []byte) int {
	appended := entry{data: data, state: ack.NewState()}
	if len(s.log) > 0 {
		appended.state = s.log[len(s.log)-1].state
	}
	if data != nil {
		start := time.Now()
		next, _, err := appended.state.Apply(uint64(len(s.log)+1), s.term, data)
		if err != nil {
			panic(err)
		}
		appended.state, appended.cost = next, s.computeTime(start)
		s.Applying = append(s.Applying, appended.cost)
	}
	s.log = append(s.log, appended)
	return len(s.log)
}

// replicate sends the entry at index to all nodes, and calls applied once a quorum has it and
// the leader has applied it. The append also announces the commit of all earlier entries,
// which the follower applies once it has stored the entry.
func (l *leaderLoop) replicate(index int, applied func()) {
	s := l.s
	quorum := s.options.Voters/2 + 1
	// The fsync of the leader runs during the sending. It is never the last of a quorum
	// with equal disks and a network in between.
	storedCount := 1
	onStored := func() {
		storedCount++
		if storedCount == quorum && l.live() {
			l.applyCommitted(index, applied)
		}
	}
	followers := slices.DeleteFunc(s.Alive(), func(n *Node) bool { return n == l.node })
	s.rnd.Shuffle(len(followers), func(i, k int) { followers[i], followers[k] = followers[k], followers[i] })
	for _, follower := range followers {
		l.appendTo(follower, index, onStored)
	}
}

// applyCommitted applies the entry at index on the leader, and then calls applied. The time to apply it
// passes first.
func (l *leaderLoop) applyCommitted(index int, applied func()) {
	l.s.after(l.s.log[index-1].cost, func() {
		if l.live() {
			l.node.apply(index)
			l.enqueue(input{msg: leader.Tick{}})
			applied()
		}
	})
}

// appendTo sends the entry at index to one follower, after the appends before it. The follower stores
// the entry and applies all earlier ones. If it is a voter, onStored is called when the leader receives
// its response.
func (l *leaderLoop) appendTo(follower *Node, index int, onStored func()) {
	s := l.s
	bits := float64(8 * (len(s.log[index-1].data) + entryOverhead))
	sendTime := time.Duration(bits / s.options.Uplink * float64(time.Second))
	sendStart := max(l.uplink, s.now, follower.free)
	l.uplink = sendStart + sendTime
	storedAt := l.uplink + follower.latency + s.options.Fsync
	follower.free = storedAt + follower.latency

	applyTime := time.Duration(0) // of the entries before this one
	for i := follower.applied; i < index-1; i++ {
		applyTime += s.log[i].cost
	}
	s.after(storedAt-s.now, func() {
		if !follower.up || s.leader != l {
			return
		}
		s.after(applyTime, func() { follower.apply(index - 1) })
		if follower.voter {
			s.after(follower.latency, onStored)
		}
	})
}
