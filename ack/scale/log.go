package scale

import (
	"slices"
	"time"

	"shardway/ack"
)

// entryHead is what Raft adds to an entry in an append.
const entryHead = 120

// append puts an entry, or a barrier, at the end of the log and returns its
// index. Every node applies the same entries, so it is applied once, and its cost
// is charged to each.
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

// replicate sends the entry at index to everybody, and calls applied once a
// quorum has it and the leader has applied it. A follower learns by this append
// that all before it is committed, and applies that once it has stored the entry.
func (l *leader) replicate(index int, applied func()) {
	s := l.s
	e := s.log[index-1]
	size := len(e.data) + entryHead
	stored, quorum := 1, s.o.Voters/2+1
	done := func() {
		if stored++; stored != quorum || !l.live() {
			return
		}
		s.after(e.cost, func() {
			if l.live() {
				l.node.apply(index)
				l.put(work{msg: ack.Tick{}})
				applied()
			}
		})
	}
	// The leader's own fsync runs beside the sending; it is never the last of a
	// quorum that has the same disks and a network between.
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
