package leaderloop

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/node/cluster"
	"shardway/node/control"
	"shardway/registry"
)

// Client performs requests at the leader, which is this node or another one. Its methods may be called from
// any goroutine.
type Client struct {
	// Self is the ID of this node.
	Self string
	View *cluster.View
	// Control sends requests to other nodes.
	Control *control.Client
	// CurrentLeadership returns the leadership of this node, or nil if this node does not lead.
	CurrentLeadership func() *Leadership
	// NoLeaderReason returns why there is no leader, as far as this node can determine, with a remedy.
	NoLeaderReason func() string
	Log            zerolog.Logger
}

// ViewTimeout bounds a request for the leader's view of the nodes.
const ViewTimeout = 250 * time.Millisecond

// Leadership returns the current leadership of this node, or nil if this node does not lead. It is also nil
// if the node has isolated itself because its disk has stalled, see cluster.View.Leader.
func (c *Client) Leadership() *Leadership {
	if c.View.Raft.IsIsolated() {
		return nil
	}
	return c.CurrentLeadership()
}

// call sends a request to the leader, which must be another node. This node may be elected and have no
// leadership yet. It never sends a request to itself, because it would record its own disk as that of
// another node.
func (c *Client) call(ctx context.Context, request control.Request, response any) error {
	leader := c.View.Leader()
	switch leader {
	case "":
		return fmt.Errorf("%w: %s", api.ErrNoLeader, c.NoLeaderReason())
	case c.Self:
		return fmt.Errorf("%w: this node has been elected and does not lead yet: try again", api.ErrNotLeader)
	}
	return c.Control.CallLeader(ctx, leader, request, response)
}

// Do performs an action of an operator at the leader.
func (c *Client) Do(ctx context.Context, action api.Action) error {
	if l := c.Leadership(); l != nil {
		return l.Do(ctx, action)
	}
	return c.call(ctx, control.Request{Kind: control.AdminAction, Action: action}, nil)
}

// Plan returns the moves that the next shard map would contain. Only the leader can compute them.
func (c *Client) Plan(ctx context.Context) (plan api.Plan, err error) {
	ctx, cancel := context.WithTimeout(ctx, control.HandlerTimeout)
	defer cancel()
	if l := c.Leadership(); l != nil {
		return l.Plan(ctx)
	}
	err = c.call(ctx, control.Request{Kind: control.Plan}, &plan)
	return plan, err
}

// ChangeTiming asks the leader to change the timing of the cluster. An empty change returns the current
// timing. requester is written to the log.
func (c *Client) ChangeTiming(ctx context.Context, change api.Timing, requester string) (state api.TimingState, err error) {
	if l := c.Leadership(); l != nil {
		return l.ChangeTiming(ctx, change, requester)
	}
	err = c.call(ctx, control.Request{Kind: control.Timing, Timing: change, By: requester}, &state)
	return state, err
}

// Upgrade asks the leader for the state of the upgrade. If finalize is true, the leader first puts the next
// level into force. requester is written to the log.
func (c *Client) Upgrade(ctx context.Context, finalize bool, requester string) (state api.UpgradeState, err error) {
	if l := c.Leadership(); l != nil {
		return l.Upgrade(ctx, finalize, requester)
	}
	err = c.call(ctx, control.Request{Kind: control.FormatVersion, Execute: finalize, By: requester}, &state)
	return state, err
}

// PendingUpgrade returns which nodes prevent the next level. The result is zero if there is no next level, in which
// case it does not ask the leader, and nil if the leader does not respond.
func (c *Client) PendingUpgrade(ctx context.Context) *api.UpgradeState {
	if !c.View.HasNextLevel() {
		return &api.UpgradeState{}
	}
	ctx, cancel := context.WithTimeout(ctx, ViewTimeout)
	defer cancel()
	state, err := c.Upgrade(ctx, false, "")
	if err != nil {
		return nil
	}
	return &state
}

// LeaderState returns the state of the current leadership. The second result is false if there is no leader, or if it
// did not respond within ViewTimeout.
func (c *Client) LeaderState(ctx context.Context) (State, bool) {
	ctx, cancel := context.WithTimeout(ctx, ViewTimeout)
	defer cancel()
	if l := c.Leadership(); l != nil {
		return l.State(ctx)
	}
	leaderID := c.View.Leader()
	if leaderID == "" || leaderID == c.Self {
		return State{}, false
	}
	var state State
	if err := c.Control.Call(ctx, leaderID, control.Request{Kind: control.LeaderState}, &state); err != nil {
		c.Log.Debug().Err(err).Msg("leader's state not available")
		return State{}, false
	}
	return state, true
}

// Views returns the leader's view of the nodes. It returns nil if there is no leader, if the leader did not respond
// within ViewTimeout, or if ctx has ended.
func (c *Client) Views(ctx context.Context) []leader.MemberView {
	ctx, cancel := context.WithTimeout(ctx, ViewTimeout)
	defer cancel()
	if l := c.Leadership(); l != nil {
		views, _ := l.View(ctx)
		return views
	}
	leaderID := c.View.Leader()
	if leaderID == "" || leaderID == c.Self {
		return nil
	}
	var members []WireMember
	err := c.Control.Call(ctx, leaderID, control.Request{Kind: control.NodeViews}, &members)
	var views []leader.MemberView
	if err == nil {
		views, err = MemberViews(members)
	}
	if err != nil {
		c.Log.Debug().Err(err).Msg("leader's view not available")
		return nil
	}
	return views
}

// ApplyRegistry applies a command to the registry at the leader.
func (c *Client) ApplyRegistry(ctx context.Context, command registry.Command) (result registry.Result, err error) {
	if l := c.Leadership(); l != nil {
		return l.ApplyRegistry(ctx, command)
	}
	encoded, err := json.Marshal(command)
	if err != nil {
		return result, err
	}
	err = c.call(ctx, control.Request{Kind: control.Registry, Registry: encoded}, &result)
	return result, err
}

// RegistryIndex returns an index for a linearizable read: the registry of a node that contains the entries up to this
// index contains all commands that were completed before the call.
func (c *Client) RegistryIndex(ctx context.Context) (index uint64, err error) {
	if l := c.Leadership(); l != nil {
		return l.RegistryIndex(ctx)
	}
	err = c.call(ctx, control.Request{Kind: control.Registry}, &index)
	return index, err
}
