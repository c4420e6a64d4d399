package findings

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/node/control"
	"shardway/node/crashdetect"
	"shardway/node/leaderloop"
	"shardway/node/selfcheck"
	"shardway/shardmap"
)

// LeaderReport is the result of a query to the leader.
type LeaderReport struct {
	leader   string                // the node that was queried
	at       time.Time             // time of the query
	Views    []leader.MemberView   // nil means no response
	viewsAt  time.Time             // time of the query that returned Views
	epoch    shardmap.Epoch        // epoch of the map that was committed on this node at viewsAt
	Suspects []crashdetect.Suspect // nil means no response
	Upgrade  *api.UpgradeState     // nil means no response
	// DifferingSettings are the settings that differ between nodes; nil means no response.
	DifferingSettings []diagnosis.Difference
	// Unreachable are the nodes that the leader does not add because it cannot reach their peer
	// ports; nil means no response.
	Unreachable []diagnosis.UnreachablePeerPort
}

// isFresh reports whether leader returned this report less than pause ago, so that no query is needed.
func (r LeaderReport) isFresh(now time.Time, leader string, pause time.Duration) bool {
	return leader == r.leader && now.Sub(r.at) < pause
}

// withFallback returns r, and takes each missing part from the previous report of the same leader, so that a busy
// leader clears no finding. An old part is harmless: Raft reports which node leads, and conditions of nodes are
// smoothed (see nodeDebouncers).
func (r LeaderReport) withFallback(previous LeaderReport) LeaderReport {
	if r.leader != previous.leader {
		return r
	}
	if r.Views == nil {
		r.Views, r.viewsAt, r.epoch = previous.Views, previous.viewsAt, previous.epoch
	}
	if r.Suspects == nil {
		r.Suspects = previous.Suspects
	}
	if r.Upgrade == nil {
		r.Upgrade = previous.Upgrade
	}
	if r.DifferingSettings == nil {
		r.DifferingSettings = previous.DifferingSettings
	}
	if r.Unreachable == nil {
		r.Unreachable = previous.Unreachable
	}
	return r
}

// covers reports whether the report contains a view of a node.
func (r LeaderReport) covers(node string) bool {
	return slices.ContainsFunc(r.Views, func(v leader.MemberView) bool { return string(v.Node) == node })
}

// QueryLeader requests the state that only the leader has. It sends all questions in one request, on
// a stream that stays open. Parts without a response are nil.
func (m *Monitor) QueryLeader(ctx context.Context, leaderID string) (report LeaderReport) {
	if leaderID == string(m.options.Self) {
		return m.queryLeaderSeparately(ctx)
	}
	questions := []control.Request{{Kind: control.NodeViews}, {Kind: control.Suspects}, m.differencesRequest(), {Kind: control.Unconfirmed}, {Kind: control.Statement}}
	if m.options.View.HasNextLevel() {
		questions = append(questions, control.Request{Kind: control.FormatVersion})
	}
	queryCtx, cancel := context.WithTimeout(ctx, leaderloop.ViewTimeout)
	defer cancel()
	var replies []control.Reply
	raw, err := m.leaderStream.Call(queryCtx, m.options.Client, leaderID, control.Request{Kind: control.Batch, Batch: questions})
	if err == nil {
		err = json.Unmarshal(raw, &replies)
	}
	// A RemoteError is an error that the leader has sent in its response.
	if _, isRemote := errors.AsType[control.RemoteError](err); isRemote {
		return m.queryLeaderSeparately(ctx) // an older version supports only one question per request
	}
	if err != nil || len(replies) != len(questions) {
		m.options.Log.Debug().Err(err).Int("replies", len(replies)).Msg("leader did not report its state")
		return report
	}
	return m.decodeReport(leaderID, replies)
}

// decodeReport decodes the replies to the questions of QueryLeader, in the order of the questions.
func (m *Monitor) decodeReport(leaderID string, replies []control.Reply) (report LeaderReport) {
	if members, ok := control.DecodeReply[[]leaderloop.WireMember](replies[0]); ok {
		var err error
		if report.Views, err = leaderloop.MemberViews(members); err != nil {
			m.options.Log.Debug().Err(err).Msg("invalid view from leader")
		}
	}
	if suspects, ok := control.DecodeReply[[]crashdetect.Suspect](replies[1]); ok {
		report.Suspects = suspects
		if suspects == nil {
			report.Suspects = []crashdetect.Suspect{}
		}
	}
	if differences, ok := control.DecodeReply[[]diagnosis.Difference](replies[2]); ok {
		report.DifferingSettings = differences
	}
	if unreachable, ok := control.DecodeReply[[]diagnosis.UnreachablePeerPort](replies[3]); ok {
		report.Unreachable = unreachable
	}
	if statement, ok := control.DecodeReply[selfcheck.Statement](replies[4]); ok {
		m.selfCheck.receive(leaderID, statement)
	}
	if hasNextLevel := len(replies) > 5; !hasNextLevel {
		report.Upgrade = &api.UpgradeState{}
	} else if upgrade, ok := control.DecodeReply[api.UpgradeState](replies[5]); ok {
		report.Upgrade = &upgrade
	}
	return report
}

// queryLeaderSeparately does the same as QueryLeader, with one request per question.
func (m *Monitor) queryLeaderSeparately(ctx context.Context) LeaderReport {
	views := m.options.Leader.Views(context.Background()) //nolint:contextcheck // Views bounds itself
	return LeaderReport{Views: views, Suspects: m.options.Poison.SuspectsOfLeader(ctx), Upgrade: m.options.Leader.PendingUpgrade(ctx), DifferingSettings: m.ownDifferences(views), Unreachable: m.Unconfirmed()}
}

// differencesRequest returns a request to the leader for the settings that differ between nodes. The request
// contains the settings of this node.
func (m *Monitor) differencesRequest() control.Request {
	return control.Request{Kind: control.Settings, Settings: m.options.API.OwnSettings()}
}

// ownDifferences returns the settings that differ between nodes, or nil if this node no longer
// leads.
func (m *Monitor) ownDifferences(views []leader.MemberView) []diagnosis.Difference {
	l := m.options.Leader.Leadership()
	if l == nil {
		return nil
	}
	d, err := l.SettingsDifferences(views, string(m.options.Self), m.options.API.OwnSettings())
	if err != nil {
		m.options.Log.Warn().Err(err).Msg("settings not compared")
	}
	return d
}

// ExpireLeaderStream makes the next query of the leader fail, as if the leader had closed the stream. It
// reports whether there is a stream. Only tests use it.
func (m *Monitor) ExpireLeaderStream() bool { return m.leaderStream.Expire() }
