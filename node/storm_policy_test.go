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

// What operators ask of a cluster is no fault: it excuses no request that fails and
// nobody's death. It only changes who is to have what, and in the end a cluster is as it
// was asked to be.

// planned are the strikes of planned change, drawn like all others.
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

// anyOf draws a name, "" of none.
func (s *storm) anyOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[s.r.IntN(len(names))]
}

// ask has an operator ask a node for something, and tells what became of it, if told is
// not nil. It may be refused, or nobody know.
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

// drain asks for a node to own nothing.
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

// uncordon asks p to take back what a node was asked for.
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

// policy is what the cluster has been asked to be, as far as the leader knows; nil if
// nobody leads.
func (s *storm) policy() *ack.Policy {
	if l := s.leader(); l != nil && l.started() {
		return l.node.State().Policy()
	}
	return nil
}

// asked are the nodes that are drained or cordoned.
func (s *storm) asked() (names []string) {
	if p := s.policy(); p != nil {
		names = slices.DeleteFunc(slices.Clone(s.names), func(n string) bool {
			return !p.Drained[shardmap.NodeID(n)] && !p.Cordoned[shardmap.NodeID(n)]
		})
	}
	return names
}

// free reports that nobody has asked for anything but weights.
func (s *storm) free() bool {
	p := s.policy()
	return p != nil && s.asking.Load() == 0 && len(p.Drained) == 0 && len(p.Cordoned) == 0 && p.Pause == 0
}

// honoured waits until all are there and own what they were asked to: who is drained
// nothing, unless everybody is. Then it takes all back that was asked but weights.
func (s *storm) honoured() {
	s.t.Helper()
	s.within(12*time.Minute, "drained nodes own nothing, and all others are there", func() bool {
		s.restartAll()
		p := s.policy()
		switch {
		case p == nil || !s.up() || s.asking.Load() > 0:
			return false
		case p.Pause > 0: // newcomers would get nothing
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

// owned reports that one map is in force, and that it is what was asked for.
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

// even reports that each has its share of the shards, by the weights in force. Who was
// cordoned is a member as soon as it is not, and gets its share a moment later.
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

// A drain under load fails nothing, be it forced upon everybody: the last map stays.
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
