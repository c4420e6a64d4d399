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
	e := entry{data: data, state: ack.NewState()}
	if len(s.log) > 0 {
		e.state = s.log[len(s.log)-1].state
	}
	if data != nil {
		began := time.Now()
		next, _, err := e.state.Apply(uint64(len(s.log)+1), s.term, data)
		if err != nil {
			panic(err)
		}
		e.state, e.cost = next, s.took(began)
		s.Applying = append(s.Applying, e.cost)
	}
	s.log = append(s.log, e)
	return len(s.log)
}

// replicate sends the entry at index to all nodes, and calls applied once a quorum has it and
// the leader has applied it. The append also announces the commit of all earlier entries,
// which the follower applies once it has stored the entry.
func (l *leaderLoop) replicate(index int, applied func()) {
	s := l.s
	e := s.log[index-1]
	size := len(e.data) + entryOverhead
	stored, quorum := 1, s.o.Voters/2+1
	done := func() {
		if stored++; stored != quorum || !l.live() {
			return
		}
		s.after(e.cost, func() {
			if l.live() {
				l.node.apply(index)
				l.enqueue(input{msg: leader.Tick{}})
				applied()
			}
		})
	}
	// The fsync of the leader runs during the sending. It is never the last of a quorum
	// with equal disks and a network in between.
	followers := slices.DeleteFunc(s.Alive(), func(n *Node) bool { return n == l.node })
	s.rnd.Shuffle(len(followers), func(i, k int) { followers[i], followers[k] = followers[k], followers[i] })
	for _, n := range followers {
		begin := max(s.now, n.free)
		l.uplink = max(l.uplink, begin) + time.Duration(float64(size*8)/s.o.Uplink*float64(time.Second))
		arrive := l.uplink + n.latency
		n.free = arrive + s.o.Fsync + n.latency
		cost := time.Duration(0)
		for i := n.applied; i < index-1; i++ {
			cost += s.log[i].cost
		}
		s.after(arrive+s.o.Fsync-s.now, func() {
			if !n.up || s.leader != l {
				return
			}
			s.after(cost, func() { n.apply(index - 1) })
			if n.voter {
				s.after(n.latency, done)
			}
		})
	}
}
