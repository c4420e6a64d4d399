package node_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/shardmap"
)

// Requests of operators are no fault: they excuse no failed request and no ended process. They only change the target of the map, and at
// its end a cluster must match what was requested.

// planned are the strikes of planned changes. They are drawn like all others.
var planned = []strike{
	{"drain", 3, func(s *storm, p *process) { s.drain(p, s.r.IntN(4) == 0) }},
	{"drain the leader", 1, func(s *storm, p *process) { s.drain(s.leaderOr(p), false) }},
	{"uncordon", 3, func(s *storm, p *process) { s.uncordon(p, s.anyOf(s.asked())) }},
	{"cordon", 1, func(s *storm, p *process) { s.ask(p, api.Action{Verb: api.Cordon, Node: p.name}, nil) }},
	{"pause", 1, func(s *storm, p *process) { s.ask(p, api.Action{Verb: api.Pause, For: "4s"}, nil) }},
	{"resume", 1, func(s *storm, p *process) { s.ask(p, api.Action{Verb: api.Resume}, nil) }},
	{"weigh", 2, func(s *storm, p *process) {
		s.ask(p, api.Action{Verb: api.Weigh, Node: s.anyOf(s.owners()), Weight: uint32(s.r.IntN(4))}, nil)
	}},
}

// anyOf returns a random name, or "" if there are none.
func (s *storm) anyOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[s.r.IntN(len(names))]
}

// ask sends a node the request of an operator, and passes the result to told, if that is not nil. The request may be refused, or its result
// may be unknown.
func (s *storm) ask(p *process, a api.Action, told func(error)) {
	if !p.started() {
		s.logf("  not now: nobody answers there yet")
		return
	}
	if a.Node != "" {
		s.logf("  %s", a.Node)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	s.asking.Add(1)
	n := p.node
	go func() { // ends with ctx
		defer s.asking.Add(-1)
		defer cancel()
		if err := n.API().Do(ctx, a); told != nil {
			told(err)
		}
	}()
}

// drain requests that a node owns nothing.
func (s *storm) drain(p *process, force bool) {
	if s.traits[p.name].gateway {
		s.logf("  not now: it owns nothing")
		return
	}
	over := s.witness.drains(p.name)
	s.ask(s.pick(), api.Action{Verb: api.Drain, Node: p.name, Force: force}, func(err error) {
		if errors.Is(err, api.ErrRefused) {
			over()
		}
	})
}

// uncordon asks p to take back the requests for a node.
func (s *storm) uncordon(p *process, node string) {
	if node == "" {
		s.logf("  not now: nobody is drained")
		return
	}
	before := now()
	s.ask(p, api.Action{Verb: api.Uncordon, Node: node}, func(err error) {
		if err == nil {
			s.witness.uncordons(node, before)
		}
	})
}

// policy returns the requests in force as the leader has them; nil if there is no leader.
func (s *storm) policy() *ack.Policy {
	if l := s.leader(); l != nil && l.started() {
		return l.node.State().Policy()
	}
	return nil
}

// asked returns the drained and cordoned nodes.
func (s *storm) asked() (names []string) {
	if p := s.policy(); p != nil {
		names = slices.DeleteFunc(slices.Clone(s.names), func(n string) bool {
			return !p.Drained[shardmap.NodeID(n)] && !p.Cordoned[shardmap.NodeID(n)]
		})
	}
	return names
}

// free reports whether no requests except weights are in force.
func (s *storm) free() bool {
	p := s.policy()
	return p != nil && s.asking.Load() == 0 && len(p.Drained) == 0 && len(p.Cordoned) == 0 && p.Pause == 0
}

// honoured waits until all nodes are up and own what was requested: a drained node owns nothing, unless all are drained. Then it takes back
// all requests except weights.
func (s *storm) honoured() {
	s.t.Helper()
	s.within(12*time.Minute, "drained nodes own nothing, and all others are there", func() bool {
		s.restartAll()
		p := s.policy()
		switch {
		case p == nil || !s.up() || s.asking.Load() > 0:
			return false
		case p.Pause > 0: // new nodes would get nothing
			s.ask(s.leader(), api.Action{Verb: api.Resume}, nil)
			return false
		}
		return s.owned(p)
	})
	s.within(time.Minute, "nobody is drained any more", func() bool {
		if names := s.asked(); len(names) > 0 && s.asking.Load() == 0 {
			s.uncordon(s.leader(), names[0])
		}
		return s.free()
	})
}

// owned reports whether one map is in force and matches the requests.
func (s *storm) owned(p *ack.Policy) bool {
	c := s.committed()
	for _, r := range s.running() {
		if st := r.node.State(); st.HasOpenProposal() || st.Committed().Epoch() != c.Epoch() {
			return false
		}
	}
	all := s.owners()
	if !slices.ContainsFunc(all, func(n string) bool { return !p.Drained[shardmap.NodeID(n)] }) {
		return true // the last map stays
	}
	for _, n := range all {
		id := shardmap.NodeID(n)
		if p.Drained[id] && c.IsMember(id) || !p.Drained[id] && !p.Cordoned[id] && !c.IsMember(id) {
			return false
		}
	}
	return true
}

// even reports whether each node has its share of the shards, by the weights in force. A node becomes a member as soon as its cordon is
// taken back, and gets its share a moment later.
func (s *storm) even() bool {
	c, p, sum := s.committed(), s.policy(), 0.0
	for _, m := range c.Members() {
		sum += float64(m.Weight)
	}
	return p != nil && !slices.ContainsFunc(c.Members(), func(m shardmap.Member) bool {
		want := s.traits[string(m.ID)].weight
		if w := p.Weights[m.ID]; w > 0 {
			want = w
		}
		off := float64(c.ShardCount(m.ID)) - shards*float64(m.Weight)/sum
		return m.Weight != want || off <= -1 || off >= 1
	})
}

// A drain under load fails no request, also if it is forced on all nodes: the last map stays.
func TestPlannedChangeFailsNothing(t *testing.T) {
	t.Parallel()
	loaded(t, 3, func(s *storm) {
		for _, all := range [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}} {
			for _, n := range all {
				s.drain(s.all[n], true)
				s.within(time.Minute, n+" is drained", func() bool { return slices.Contains(s.asked(), n) && s.asking.Load() == 0 })
			}
			s.honoured()
			s.until("all serve again", s.whole)
		}
	})
}
