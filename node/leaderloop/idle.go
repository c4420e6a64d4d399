package leaderloop

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"shardway/ack/leader"
	"shardway/node/control"
	"shardway/shardmap"
)

const (
	// IdlePollEvery is the interval at which a leader asks the nodes in a gradual drain for their idle
	// shards. Moving one set of idle shards takes some tens of milliseconds.
	IdlePollEvery = 250 * time.Millisecond
	// idleTimeout bounds the request to one node.
	idleTimeout = 2 * time.Second
)

// IdleReport is the response of a node to a control.Idle request. Shards are the shards that can move
// now: a move would neither abort nor wait for a request at the app. Map is the epoch of the map
// that the node uses.
type IdleReport struct {
	Map    uint64           `json:"map"`
	Shards []shardmap.Shard `json:"shards"`
}

// pollIdle asks the nodes in a gradual drain for their idle shards, until ctx ends.
func (l *Leadership) pollIdle(ctx context.Context) {
	t := l.o.Scheduler.NewTicker(IdlePollEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		s := l.o.View.State()
		if s.HasOpenProposal() {
			continue // the open proposal uses the reports that it started with
		}
		l.collectIdle(ctx, slices.Sorted(maps.Keys(s.Policy().GradualDrains))...)
	}
}

// collectIdle asks nodes for their idle shards, and passes all reports to the leader loop together.
// The first report starts a map change, which ignores reports that arrive later.
func (l *Leadership) collectIdle(ctx context.Context, nodes ...shardmap.NodeID) {
	reports := make([]*leader.IdleShards, len(nodes))
	var wg sync.WaitGroup
	for i, id := range nodes {
		wg.Go(func() { reports[i] = l.FetchIdle(ctx, id) })
	}
	wg.Wait()
	for _, m := range reports {
		if m != nil {
			l.SendContext(ctx, *m)
		}
	}
}

// FetchIdle asks one node for its idle shards; nil means that the node did not respond.
func (l *Leadership) FetchIdle(ctx context.Context, id shardmap.NodeID) *leader.IdleShards {
	var report IdleReport
	if id == l.o.Self {
		report = l.o.IdleShards()
	} else {
		reqCtx, cancel := context.WithTimeout(ctx, idleTimeout)
		defer cancel()
		if err := l.o.Client.Call(reqCtx, string(id), control.Request{Kind: control.Idle}, &report); err != nil {
			l.Log.Debug().Err(err).Str("peer", string(id)).Msg("node did not report idle shards")
			return nil
		}
	}
	return &leader.IdleShards{Node: id, MapEpoch: shardmap.Epoch(report.Map), Shards: report.Shards}
}

// StageQuestion is the leader's question in a staged map change: which shards of the node are idle?
type StageQuestion struct {
	// Number is the number of earlier questions to this node in the same map change.
	Number int `json:"number,omitempty"`
	// Held means that the question is about the shards that the open proposal moves away from the node.
	Held bool `json:"held,omitempty"`
}

// askInStage asks a node which of its shards are idle, and passes the response to the leader loop.
func (l *Leadership) askInStage(ctx context.Context, q leader.AskIdle) {
	question := StageQuestion{Number: q.QuestionNumber, Held: q.OpenRound}
	var at IdleReport
	if q.Node == l.o.Self {
		at = l.o.IdleInStage(question)
	} else {
		asking, cancel := context.WithTimeout(ctx, idleTimeout)
		defer cancel()
		b, err := json.Marshal(question)
		if err == nil {
			err = l.o.Client.Call(asking, string(q.Node), control.Request{Kind: control.Idle, Question: b}, &at)
		}
		if err != nil {
			l.Log.Debug().Err(err).Str("peer", string(q.Node)).Msg("idle shards not reported")
			return
		}
	}
	l.SendContext(ctx, leader.IdleShards{Node: q.Node, MapEpoch: shardmap.Epoch(at.Map), Shards: at.Shards, IsAnswer: true})
}
