package node_test

import (
	"strings"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/event"
	"shardway/node"
	"shardway/shardmap"
)

// joinTimeout is the value of --join-timeout in these tests.
const joinTimeout = 5 * time.Minute

// approving starts a cluster of three bootstrap nodes with manual approval.
func approving(t *testing.T, f func(w *world)) {
	t.Helper()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.ManualJoins, o.JoinTimeout, o.BootstrapExpect = true, joinTimeout, 3 }
		w.start("a")
		w.start("b")
		w.start("c")
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		f(w)
	})
}

// join returns the join of a node, as another node reports it.
func (p *process) join(name string) (found api.NodeJoin) {
	for _, entry := range p.node.API().Joins().Joins {
		if entry.Node == name && (found.Node == "" || entry.Stage != "active") {
			found = entry
		}
	}
	return found
}

// untilStage waits until all members report a stage of a node.
func (w *world) untilStage(name, stage string) {
	w.t.Helper()
	w.until(name+" is "+stage, func() bool {
		for _, p := range w.running() {
			if p.name != name && p.started() && p.node.Leased() && p.join(name).Stage != stage {
				return false
			}
		}
		return true
	})
}

// untilReports waits until a node that waits reports a text, and is not ready.
func (w *world) untilReports(p *process, text string) {
	w.t.Helper()
	w.until(p.name+" reports "+text, func() bool {
		if !p.started() {
			return false
		}
		err := p.node.API().Ready()
		return err != nil && strings.Contains(err.Error(), "join-waiting: ") && strings.Contains(err.Error(), text)
	})
}

// staysOutside checks that a node is no member and owns nothing for some time.
func (w *world) staysOutside(name string) {
	w.t.Helper()
	for range 100 {
		w.moment()
		for _, p := range w.running() {
			if p.name == name {
				continue
			}
			for _, server := range p.node.Servers() {
				if server == name {
					w.t.Fatalf("%s is a server", name)
				}
			}
			if state := p.node.State(); state.Committed().IsMember(shardmap.NodeID(name)) || state.Proposed().IsMember(shardmap.NodeID(name)) {
				w.t.Fatalf("%s is in the map", name)
			}
		}
	}
}

// replaceLeader kills the leader, waits for the next one, and restarts the previous one.
func (w *world) replaceLeader() {
	w.t.Helper()
	previous := w.leader()
	rest := w.others(previous)
	previous.kill()
	w.until("there is another leader", func() bool { return w.leads(rest...) != nil })
	previous.restart()
	w.until("the previous leader has a lease", func() bool { return previous.started() && previous.node.Leased() })
}

// A node joins when an operator has approved it. Each leader continues the join where the previous one has stopped.
func TestJoinIsApprovedByHandThroughLeaderChanges(t *testing.T) {
	t.Parallel()
	approving(t, func(w *world) {
		w.start("d")
		d := w.all["d"]
		w.untilReports(d, "run `shardway approve d` on a member of the cluster")
		w.untilStage("d", "requested")
		ticket := w.leader().join("d").Ticket
		w.untilFindingsAre(w.follower(), "node d waits for an approval to join", "run `shardway approve d`")
		w.replaceLeader()
		w.staysOutside("d")
		if again := w.leader().join("d"); again.Ticket != ticket || again.Stage != "requested" {
			w.t.Errorf("after an election: %+v, want ticket %d", again, ticket)
		}
		w.refused(w.leader(), api.Action{Verb: api.Approve, Node: "d", Ticket: ticket + 1}, api.ErrRefused, "another ticket")
		w.refused(w.leader(), api.Action{Verb: api.Approve, Node: "x"}, api.ErrRefused, "no such join request")
		w.refused(w.leader(), api.Action{Verb: api.Refuse, Node: "a", Reason: "x"}, api.ErrRefused, "has joined")
		leader := w.leader()
		w.asks(w.follower(), api.Action{Verb: api.Approve, Node: "d", Ticket: ticket, Reason: "new hardware"})
		leader.kill() // between the approval and the next stages
		w.until("the next leader adds it", func() bool { l := w.leads(w.others(leader)...); return l != nil && l.join("d").Stage == "active" })
		leader.restart()
		w.untilSettled("a", "b", "c", "d")
		w.untilStage("d", "active")
		entry := w.leader().join("d")
		if entry.Ticket != ticket || entry.Reason != "new hardware" || entry.EffectiveIndex <= ticket || len(entry.Stages) != 4 {
			w.t.Errorf("%+v", entry)
		}
		w.until("a member has the events", func() bool {
			return hasEvent(w.all["b"], event.JoinRequested) || hasEvent(w.all["a"], event.JoinRequested) || hasEvent(w.all["c"], event.JoinRequested)
		})

		// A restart and a return need no approval.
		d.kill()
		d.restart()
		w.untilSettled("a", "b", "c", "d")
		d.terminate()
		w.untilSettled("a", "b", "c")
		d.restart()
		w.untilSettled("a", "b", "c", "d")

		// Another disk is a new request.
		d.kill()
		d.wipe()
		w.untilSettled("a", "b", "c")
		d.restart()
		w.untilReports(d, "waits for an approval")
		w.asks(w.leader(), api.Action{Verb: api.Refuse, Node: "d", Reason: "lost disk"})
		w.untilReports(d, "the join request of node d is refused: lost disk")
		w.asks(w.leader(), api.Action{Verb: api.Approve, Node: "d"})
		w.untilSettled("a", "b", "c", "d")
	})
}

// hasEvent reports whether a node has recorded an event about node d.
func hasEvent(p *process, kind event.Kind) bool {
	_, all := p.events(0)
	for _, e := range all {
		if e.Kind == kind && e.Node == "d" {
			return true
		}
	}
	return false
}

// A refused node reports the reason and waits. It never becomes a server, also after a restart and an election. A
// request without a decision expires, and the node requests again when it restarts.
func TestRefusedAndExpiredNodesStayOutside(t *testing.T) {
	t.Parallel()
	approving(t, func(w *world) {
		w.start("d")
		d := w.all["d"]
		w.untilStage("d", "requested")
		w.asks(w.leader(), api.Action{Verb: api.Refuse, Node: "d", Reason: "unknown node"})
		w.untilReports(d, "the join request of node d is refused: unknown node; stop this node, or run `shardway approve d`")
		w.staysOutside("d")
		d.kill()
		d.restart()
		w.replaceLeader()
		w.staysOutside("d")
		w.untilStage("d", "refused")

		w.start("e")
		e := w.all["e"]
		w.untilStage("e", "requested")
		w.untilFinding(w.follower(), diagnosis.JoinWaiting, diagnosis.Info)
		time.Sleep(joinTimeout)
		w.untilStage("e", "expired")
		w.untilReports(e, "the join request of node e has expired; restart this node, then run `shardway approve e`")
		w.refused(w.leader(), api.Action{Verb: api.Approve, Node: "e"}, api.ErrRefused, "has expired: restart the node")
		w.staysOutside("e")
		e.kill()
		e.restart()
		w.untilStage("e", "requested")
		w.asks(w.leader(), api.Action{Verb: api.Approve, Node: "e"})
		w.untilStage("e", "active")
		w.staysOutside("d")
	})
}

// untilFinding waits for a finding with a severity.
func (w *world) untilFinding(p *process, code diagnosis.Code, severity diagnosis.Severity) {
	w.t.Helper()
	w.until(string(code), func() bool {
		for _, finding := range p.node.Findings() {
			if finding.Code == code && finding.Severity == severity {
				return true
			}
		}
		return false
	})
}

// With automatic approval, nodes join without a request, and the log contains none.
func TestAutomaticApprovalWritesNoRequests(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		if joins := w.leader().node.State().Joins(); !joins.IsEmpty() {
			w.t.Errorf("records %+v", joins.All())
		}
		list := w.follower().node.API().Joins()
		if list.Approval != "auto" || len(list.Joins) != 3 {
			w.t.Errorf("%+v", list)
		}
		for _, entry := range list.Joins {
			if entry.Stage != "active" || entry.Ticket != 0 {
				w.t.Errorf("%+v", entry)
			}
		}
		w.refused(w.leader(), api.Action{Verb: api.Approve, Node: "d"}, api.ErrRefused, "no such join request")
	})
}
