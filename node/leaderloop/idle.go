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
	// IdlePollInterval is the interval at which a leader asks the nodes in a gradual drain for their idle
	// shards. Moving one set of idle shards takes some tens of milliseconds.
	IdlePollInterval = 250 * time.Millisecond
	// idleRequestTimeout bounds the request to one node.
	idleRequestTimeout = 2 * time.Second
)

// IdleReport is the response of a node to a control.Idle request. Shards are the shards that can move
// now: a move would neither abort nor wait for a request at the app. Map is the epoch of the map
// that the node uses.
type IdleReport struct {
	Map    uint64           `json:"map"`
	Shards []shardmap.Shard `json:"shards"`
}

// pollIdleShards asks the nodes in a gradual drain for their idle shards, until ctx ends.
func (l *Leadership) pollIdleShards(ctx context.Context) {
	ticker := l.options.Scheduler.NewTicker(IdlePollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		state := l.options.View.State()
		if state.HasOpenProposal() {
			continue // the open proposal uses the reports that it started with
		}
		l.collectIdleShards(ctx, slices.Sorted(maps.Keys(state.Policy().GradualDrains))...)
	}
}

// collectIdleShards asks nodes for their idle shards, and passes all reports to the leader loop together.
// The first report starts a map change, which ignores reports that arrive later.
func (l *Leadership) collectIdleShards(ctx context.Context, nodes ...shardmap.NodeID) {
	reports := make([]*leader.IdleShards, len(nodes))
	var wg sync.WaitGroup
	for i, id := range nodes {
		wg.Go(func() { reports[i] = l.FetchIdleShards(ctx, id) })
	}
	wg.Wait()
	for _, report := range reports {
		if report != nil {
			l.SendContext(ctx, *report)
		}
	}
}

// FetchIdleShards asks one node for its idle shards. It returns nil if the node did not respond.
func (l *Leadership) FetchIdleShards(ctx context.Context, id shardmap.NodeID) *leader.IdleShards {
	var report IdleReport
	if id == l.options.Self {
		report = l.options.IdleShards()
	} else {
		reqCtx, cancel := context.WithTimeout(ctx, idleRequestTimeout)
		defer cancel()
		if err := l.options.Client.Call(reqCtx, string(id), control.Request{Kind: control.Idle}, &report); err != nil {
			l.Log.Debug().Err(err).Str("peer", string(id)).Msg("node did not report idle shards")
			return nil
		}
	}
	return &leader.IdleShards{Node: id, MapEpoch: shardmap.Epoch(report.Map), Shards: report.Shards}
}

// StagedIdleRequest is the leader's request, in a staged map change, for the shards of a node that are
// idle.
type StagedIdleRequest struct {
	// Number is the number of earlier requests to this node in the same map change.
	Number int `json:"number,omitempty"`
	// Held is set if the request is about the shards that the open proposal moves away from the node.
	Held bool `json:"held,omitempty"`
}

// fetchIdleStaged asks a node which of its shards are idle, and passes the response to the leader loop.
func (l *Leadership) fetchIdleStaged(ctx context.Context, request leader.IdleShardsQuery) {
	wireRequest := StagedIdleRequest{Number: request.QueryNumber, Held: request.OpenRound}
	var report IdleReport
	if request.Node == l.options.Self {
		report = l.options.IdleInStage(wireRequest)
	} else {
		reqCtx, cancel := context.WithTimeout(ctx, idleRequestTimeout)
		defer cancel()
		encoded, err := json.Marshal(wireRequest)
		if err == nil {
			err = l.options.Client.Call(reqCtx, string(request.Node), control.Request{Kind: control.Idle, StagedIdle: encoded}, &report)
		}
		if err != nil {
			l.Log.Debug().Err(err).Str("peer", string(request.Node)).Msg("idle shards not reported")
			return
		}
	}
	l.SendContext(ctx, leader.IdleShards{Node: request.Node, MapEpoch: shardmap.Epoch(report.Map), Shards: report.Shards, IsAnswer: true})
}
