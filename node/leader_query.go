package node

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
	"shardway/shardmap"
)

// leaderReport is the result of the last query to the leader.
type leaderReport struct {
	leader   string
	at       time.Time
	views    []leader.MemberView   // nil means no response
	viewsAt  time.Time             // time of the query that returned views
	epoch    shardmap.Epoch        // epoch of the map that was committed on this node at viewsAt
	suspects []crashdetect.Suspect // nil means no response
	level    *api.UpgradeState     // nil means no response
	// differingSettings are the settings that differ between nodes; nil means no response.
	differingSettings []diagnosis.Difference
	// unreachable are the nodes that the leader does not add because it cannot reach their peer
	// ports; nil means no response.
	unreachable []diagnosis.UnreachablePeerPort
}

// isFresh reports whether leader returned this report less than pause ago, so that no query is needed.
func (t leaderReport) isFresh(now time.Time, leader string, pause time.Duration) bool {
	return leader == t.leader && now.Sub(t.at) < pause
}

// withFallback returns t, and takes each missing part from the previous report of the same leader, so
// that a busy leader clears no finding. An old part does no harm: Raft reports which node leads, and
// conditions of nodes are smoothed (see nodeSmoothers).
func (t leaderReport) withFallback(before leaderReport) leaderReport {
	if t.leader != before.leader {
		return t
	}
	if t.views == nil {
		t.views, t.viewsAt, t.epoch = before.views, before.viewsAt, before.epoch
	}
	if t.suspects == nil {
		t.suspects = before.suspects
	}
	if t.level == nil {
		t.level = before.level
	}
	if t.differingSettings == nil {
		t.differingSettings = before.differingSettings
	}
	if t.unreachable == nil {
		t.unreachable = before.unreachable
	}
	return t
}

// covers reports whether the report contains a view of a node.
func (t leaderReport) covers(node string) bool {
	return slices.ContainsFunc(t.views, func(v leader.MemberView) bool { return string(v.Node) == node })
}

// queryLeader requests the state that only the leader has. It sends all questions in one request, on
// a stream that stays open. Parts without a response are nil.
func (n *Node) queryLeader(ctx context.Context, leaderID string) (t leaderReport) {
	if leaderID == string(n.self) {
		return n.queryLeaderSeparately(ctx)
	}
	questions := []control.Request{{Kind: control.Views}, {Kind: control.Suspects}, n.askDifferences(), {Kind: control.Unconfirmed}}
	if n.view.HasNextLevel() {
		questions = append(questions, control.Request{Kind: control.Level})
	}
	queryCtx, cancel := context.WithTimeout(ctx, leaderloop.ViewTimeout)
	defer cancel()
	var replies []control.Reply
	raw, err := n.watch.leaderStream.Call(queryCtx, n.client, leaderID, control.Request{Kind: control.Batch, Batch: questions})
	if err == nil {
		err = json.Unmarshal(raw, &replies)
	}
	// A RemoteError is an error that the leader has sent in its response.
	if _, said := errors.AsType[control.RemoteError](err); said {
		return n.queryLeaderSeparately(ctx) // an older version supports only one question per request
	}
	if err != nil || len(replies) != len(questions) {
		n.log.Debug().Err(err).Int("replies", len(replies)).Msg("leader did not report its state")
		return t
	}
	if members, ok := control.DecodeReply[[]leaderloop.WireMember](replies[0]); ok {
		if t.views, err = leaderloop.MemberViews(members); err != nil {
			n.log.Debug().Err(err).Msg("invalid view from leader")
		}
	}
	if suspects, ok := control.DecodeReply[[]crashdetect.Suspect](replies[1]); ok {
		t.suspects = suspects
		if suspects == nil {
			t.suspects = []crashdetect.Suspect{}
		}
	}
	if differences, ok := control.DecodeReply[[]diagnosis.Difference](replies[2]); ok {
		t.differingSettings = differences
	}
	if unadded, ok := control.DecodeReply[[]diagnosis.UnreachablePeerPort](replies[3]); ok {
		t.unreachable = unadded
	}
	switch {
	case len(questions) == 4:
		t.level = &api.UpgradeState{}
	default:
		if level, ok := control.DecodeReply[api.UpgradeState](replies[4]); ok {
			t.level = &level
		}
	}
	return t
}

// queryLeaderSeparately does the same as queryLeader, with one request per question.
func (n *Node) queryLeaderSeparately(ctx context.Context) leaderReport {
	views := n.leader.Views(context.Background()) //nolint:contextcheck // Views bounds itself
	return leaderReport{views: views, suspects: n.poison.SuspectsOfLeader(ctx), level: n.leader.PendingUpgrade(ctx), differingSettings: n.ownDifferences(views), unreachable: n.unconfirmed()}
}

// askDifferences returns a request to the leader for the settings that differ between nodes. The request
// contains the settings of this node.
func (n *Node) askDifferences() control.Request {
	return control.Request{Kind: control.Settings, Settings: n.api.OwnSettings()}
}

// ownDifferences returns the settings that differ between nodes, if this node leads. nil means that this
// node does not lead any more.
func (n *Node) ownDifferences(views []leader.MemberView) []diagnosis.Difference {
	l := n.leader.Leadership()
	if l == nil {
		return nil
	}
	d, err := l.Differences(views, string(n.self), n.api.OwnSettings())
	if err != nil {
		n.log.Warn().Err(err).Msg("settings not compared")
	}
	return d
}
