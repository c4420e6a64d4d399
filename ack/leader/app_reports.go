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
	var reports []ack.AppReport
	for id, node := range l.members {
		if !node.hasHeartbeat() || node.heartbeat.Gateway || node.isSilent(now, l.options.Pace) {
			continue
		}
		if report := (ack.AppReport{Node: id, ReturnsNeedRestart: node.heartbeat.ReturnsNeedRestart, StartedAfter: node.heartbeat.AppStartedAfter}); l.state.NeedsAppReport(report) {
			reports = append(reports, report)
		}
	}
	if len(reports) == 0 {
		return false
	}
	slices.SortFunc(reports, func(report, b ack.AppReport) int { return cmp.Compare(report.Node, b.Node) })
	l.entryInFlight, l.configEntryInFlight, l.submittedAt = true, true, now
	l.emit(Submit{Entry: ack.EncodeAppReports(l.state.FormatVersion(), ack.AppReportEntry{Term: l.options.Term, Reports: reports[:min(len(reports), ack.MaxChanges)]})})
	return true
}

// appReportsApplied handles the application of a report entry.
func (l *Leader) appReportsApplied(old *ack.State) {
	if l.configEntryInFlight && l.state.DeparturesIndex() != old.DeparturesIndex() {
		l.entryInFlight, l.configEntryInFlight = false, false
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
	placement := l.assignPolicy(l.state.Policy(), l.restartingNodes(), members)
	if placement.Barred == nil || len(members) == 0 {
		return nil
	}
	placement.Barred = nil
	unbarred := shardmap.Assign(l.state.Committed(), members, placement)
	var held []HeldBack
	for _, member := range unbarred.Members() {
		if more := unbarred.ShardCount(member.ID) - want.ShardCount(member.ID); more > 0 && l.state.ReturnsNeedRestart(member.ID) {
			held = append(held, HeldBack{Node: member.ID, Shards: more})
		}
	}
	return held
}
