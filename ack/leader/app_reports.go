package leader

import (
	"cmp"
	"slices"

	"shardway/ack"
	"shardway/shardmap"
)

// submitAppReports submits the reports in heartbeats that would change the state. It returns
// true if there were any. Placement only uses the log, so the report of a node is in the log
// before the node gets its first shard.
func (l *Leader) submitAppReports() bool {
	reports := l.members.newAppReports(l.in)
	if len(reports) == 0 {
		return false
	}
	entry := ack.AppReportEntry{Term: l.in.term, Reports: reports[:min(len(reports), ack.MaxChanges)]}
	l.submitConfig(ack.EncodeAppReports(l.in.state.FormatVersion(), entry), 0)
	return true
}

// newAppReports returns the reports in heartbeats that the log does not contain, ordered by node.
func (mt *memberTracker) newAppReports(in inputs) []ack.AppReport {
	var reports []ack.AppReport
	for id, node := range mt.byID {
		if !node.sendsHeartbeats(in) || node.heartbeat.Gateway {
			continue
		}
		for i, startedAfter := range append([]shardmap.Epoch{node.heartbeat.AppStartedAfter}, node.heartbeat.InstancesStartedAfter...) {
			instance := shardmap.InstanceID(id, shardmap.Instance(i))
			report := ack.AppReport{Node: instance, ReturnsNeedRestart: node.heartbeat.ReturnsNeedRestart, StartedAfter: startedAfter}
			if in.state.NeedsAppReport(report) {
				reports = append(reports, report)
			}
		}
	}
	slices.SortFunc(reports, func(a, b ack.AppReport) int { return cmp.Compare(a.Node, b.Node) })
	return reports
}

// HeldBack is a node that would get more shards if its app had restarted. The app may hold an old
// copy of shards that have left the node.
type HeldBack struct {
	Node shardmap.NodeID
	// Shards is how many additional shards it would own.
	Shards int
}

// heldBackByReturns returns the nodes that would own more shards than target gives them if all
// apps had restarted, ordered by id. A shard must not return to an app that may still hold an old
// copy of it. To find the affected nodes, this method computes a map without that restriction.
func (pi *placementInputs) heldBackByReturns(target *shardmap.Map) []HeldBack {
	placement := pi.placement()
	if placement.Barred == nil || len(pi.members) == 0 {
		return nil
	}
	placement.Barred = nil
	unbarred := pi.assign(placement)
	var held []HeldBack
	for _, member := range unbarred.Members() {
		more := unbarred.ShardCount(member.ID) - target.ShardCount(member.ID)
		if more > 0 && pi.state.ReturnsNeedRestart(member.ID) {
			held = append(held, HeldBack{Node: member.ID, Shards: more})
		}
	}
	return held
}
