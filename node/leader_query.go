package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"shardway/ack"
	"shardway/admin"
	"shardway/shardmap"
	"shardway/verdict"
)

// mostSeveral is how many questions one stream may ask at once.
const maxQuestions = 8

// leaderTold is what the leader said when it was asked last.
type leaderReport struct {
	leader   string
	at       time.Time
	views    []ack.MemberView    // nil: it did not say
	viewsAt  time.Time           // when it was asked for views
	epoch    shardmap.Epoch      // of the map that was committed here then
	suspects []poisonous         // likewise
	level    *admin.UpgradeState // likewise
	// differences are the settings that differ between nodes; nil: it did not say.
	differingSettings []verdict.Difference
	// unadded are the nodes that the leader does not add because it does not reach their peer
	// ports; nil: it did not say.
	unreachable []verdict.Unreached
}

// holds reports that who leads need not be asked yet: it is who said this, less than a pause ago.
func (t leaderReport) isFresh(now time.Time, leader string, pause time.Duration) bool {
	return leader == t.leader && now.Sub(t.at) < pause
}

// after returns t with what the leader has said before where it does not answer: a leader
// that is busy ends no finding. Who leads in fact is told by Raft, and what was true of
// the nodes is steadied.
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

// tells reports whether the leader has said something of a node.
func (t leaderReport) covers(node string) bool {
	return slices.ContainsFunc(t.views, func(v ack.MemberView) bool { return string(v.Node) == node })
}

// askLeader asks the leader what only it knows, all at once and by a stream that is kept.
func (n *Node) queryLeader(ctx context.Context, leader string) (t leaderReport) {
	if leader == string(n.self) {
		return n.queryLeaderSeparately(ctx)
	}
	questions := []request{{What: askViews}, {What: askSuspects}, n.askDifferences(), {What: askUnadded}}
	if n.nextLevel() {
		questions = append(questions, request{What: askLevel})
	}
	queryCtx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	var replies []reply
	raw, err := n.watch.leaderLine.ask(queryCtx, n, leader, request{What: askSeveral, Several: questions})
	if err == nil {
		err = json.Unmarshal(raw, &replies)
	}
	if _, said := errors.AsType[remoteError](err); said {
		return n.queryLeaderSeparately(ctx) // an older version knows them one by one
	}
	if err != nil || len(replies) != len(questions) {
		n.log.Debug().Err(err).Int("replies", len(replies)).Msg("leader did not report its state")
		return t
	}
	if members, ok := decodeReply[[]wireMember](replies[0]); ok {
		if t.views, err = memberViews(members); err != nil {
			n.log.Debug().Err(err).Msg("invalid view from leader")
		}
	}
	if suspects, ok := decodeReply[[]poisonous](replies[1]); ok {
		t.suspects = suspects
		if suspects == nil {
			t.suspects = []poisonous{}
		}
	}
	if differences, ok := decodeReply[[]verdict.Difference](replies[2]); ok {
		t.differingSettings = differences
	}
	if unadded, ok := decodeReply[[]verdict.Unreached](replies[3]); ok {
		t.unreachable = unadded
	}
	switch {
	case len(questions) == 4:
		t.level = &admin.UpgradeState{}
	default:
		if level, ok := decodeReply[admin.UpgradeState](replies[4]); ok {
			t.level = &level
		}
	}
	return t
}

// askEach is askLeader, one question after the other.
func (n *Node) queryLeaderSeparately(ctx context.Context) leaderReport {
	views := n.leaderViews() //nolint:contextcheck // leaderViews bounds itself
	return leaderReport{views: views, suspects: n.suspected(ctx), level: n.levelBehind(ctx), differingSettings: n.ownDifferences(views), unreachable: n.unconfirmed()}
}

// valueOf reads what a reply has; false: it is none.
func decodeReply[T any](r reply) (v T, ok bool) {
	ok = r.Error == "" && json.Unmarshal(r.Value, &v) == nil
	return v, ok
}

// several answers questions one after the other.
func (n *Node) answerAll(ctx context.Context, from asker, questions []request) ([]reply, error) {
	if len(questions) > maxQuestions {
		return nil, fmt.Errorf("%w: %d questions, %d at most", admin.ErrInvalid, len(questions), maxQuestions)
	}
	replies := make([]reply, len(questions))
	for i, q := range questions {
		if q.What == askSeveral {
			return nil, fmt.Errorf("%w: questions within questions", admin.ErrInvalid)
		}
		replies[i] = n.answerThat(ctx, from, q)
	}
	return replies, nil
}
