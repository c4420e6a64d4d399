package leader

import (
	"cmp"
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// submitAppReports submits the reports in heartbeats that would change the state. It returns
// true if there were any. Placement only uses the log, so the report of a node is in the log
// before the node gets its first shard.
func (l *Leader) submitAppReports(now time.Duration) bool {
	var apps []ack.AppReport
	for id, n := range l.members {
		if !n.hasHeartbeat() || n.heartbeat.Gateway || n.isSilent(now, l.options.Pace) {
			continue
		}
		if a := (ack.AppReport{Node: id, ReturnsNeedRestart: n.heartbeat.ReturnsNeedRestart, StartedAfter: n.heartbeat.AppStartedAfter}); l.state.NeedsAppReport(a) {
			apps = append(apps, a)
		}
	}
	if len(apps) == 0 {
		return false
	}
	slices.SortFunc(apps, func(a, b ack.AppReport) int { return cmp.Compare(a.Node, b.Node) })
	l.entryInFlight, l.changeInFlight, l.submittedAt = true, true, now
	l.emit(Submit{Entry: ack.EncodeAppReports(l.state.FormatVersion(), ack.AppReportEntry{Term: l.options.Term, Reports: apps[:min(len(apps), ack.MaxChanges)]})})
	return true
}

// appReportsApplied handles the application of a report entry.
func (l *Leader) appReportsApplied(old *ack.State) {
	if l.changeInFlight && l.state.DeparturesIndex() != old.DeparturesIndex() {
		l.entryInFlight, l.changeInFlight = false, false
	}
}

// HeldBack is a node that would get more shards if its app had restarted.
type HeldBack struct {
	Node shardmap.NodeID
	// Shards is how many more it would own.
	Shards int
}

// heldBackByReturns returns the nodes that would own more shards than want gives them if all
// apps had restarted, ordered by id.
func (l *Leader) heldBackByReturns(members []shardmap.Member, want *shardmap.Map) []HeldBack {
	rules := l.assignPolicy(l.state.Policy(), l.restartingNodes(), members)
	if rules.Barred == nil || len(members) == 0 {
		return nil
	}
	rules.Barred = nil
	free := shardmap.Assign(l.state.Committed(), members, rules)
	var held []HeldBack
	for _, m := range free.Members() {
		if more := free.Count(m.ID) - want.Count(m.ID); more > 0 && l.state.ReturnsNeedRestart(m.ID) {
			held = append(held, HeldBack{Node: m.ID, Shards: more})
		}
	}
	return held
}
