package leaderloop

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/node/cluster"
	"shardway/node/control"
)

// Client performs requests at the leader, which is this node or another one. Its methods may be called from
// any goroutine.
type Client struct {
	// Self is the ID of this node.
	Self string
	View *cluster.View
	// Control sends requests to other nodes.
	Control *control.Client
	// Current returns the leadership of this node; nil means that this node does not lead.
	Current func() *Leadership
	// WhyNone returns why there is no leader, as far as this node can determine, with a remedy.
	WhyNone func() string
	Log     zerolog.Logger
}

// ViewTimeout bounds a request for the leader's view of the nodes.
const ViewTimeout = 250 * time.Millisecond

// Leadership returns the current leadership of this node, or nil if this node does not lead. It is also nil
// if the node has isolated itself because its disk has stalled, see cluster.View.Leader.
func (c *Client) Leadership() *Leadership {
	if c.View.Raft.IsIsolated() {
		return nil
	}
	return c.Current()
}

// call sends a request to the leader, which is another node.
func (c *Client) call(ctx context.Context, q control.Request, into any) error {
	to := c.View.Leader()
	if to == "" {
		return fmt.Errorf("%w: %s", api.ErrNoLeader, c.WhyNone())
	}
	return c.Control.CallLeader(ctx, to, q, into)
}

// Do performs an action of an operator at the leader.
func (c *Client) Do(ctx context.Context, a api.Action) error {
	if l := c.Leadership(); l != nil {
		return l.Do(ctx, a)
	}
	return c.call(ctx, control.Request{Kind: control.Do, Action: a}, nil)
}

// Plan returns the moves that the next shard map would contain. Only the leader can compute them.
func (c *Client) Plan(ctx context.Context) (p api.Plan, err error) {
	ctx, cancel := context.WithTimeout(ctx, control.HandlerTimeout)
	defer cancel()
	if l := c.Leadership(); l != nil {
		return l.Plan(ctx)
	}
	err = c.call(ctx, control.Request{Kind: control.Plan}, &p)
	return p, err
}

// ChangeTiming asks the leader to change the timing of the cluster. An empty change returns the current
// timing. by is the requester, for the log.
func (c *Client) ChangeTiming(ctx context.Context, change api.Timing, by string) (t api.TimingState, err error) {
	if l := c.Leadership(); l != nil {
		return l.ChangeTiming(ctx, change, by)
	}
	err = c.call(ctx, control.Request{Kind: control.Timing, Timing: change, By: by}, &t)
	return t, err
}

// Upgrade asks the leader for the state of the upgrade. If raise is true, the leader first puts the next level
// into force. by is the requester, for the log.
func (c *Client) Upgrade(ctx context.Context, raise bool, by string) (s api.UpgradeState, err error) {
	if l := c.Leadership(); l != nil {
		return l.Upgrade(ctx, raise, by)
	}
	err = c.call(ctx, control.Request{Kind: control.Level, Firm: raise, By: by}, &s)
	return s, err
}

// PendingUpgrade returns which nodes prevent the next level. The result is zero if there is no next level, and
// nil if the leader does not respond. The leader is asked only if there is a next level.
func (c *Client) PendingUpgrade(ctx context.Context) *api.UpgradeState {
	if !c.View.HasNextLevel() {
		return &api.UpgradeState{}
	}
	ctx, cancel := context.WithTimeout(ctx, ViewTimeout)
	defer cancel()
	s, err := c.Upgrade(ctx, false, "")
	if err != nil {
		return nil
	}
	return &s
}

// Views returns the leader's view of the nodes. nil means that there is no leader, that it did not respond
// within ViewTimeout, or that ctx has ended.
func (c *Client) Views(ctx context.Context) []leader.MemberView {
	ctx, cancel := context.WithTimeout(ctx, ViewTimeout)
	defer cancel()
	if l := c.Leadership(); l != nil {
		v, _ := l.View(ctx)
		return v
	}
	to := c.View.Leader()
	if to == "" || to == c.Self {
		return nil
	}
	var members []WireMember
	err := c.Control.Call(ctx, to, control.Request{Kind: control.Views}, &members)
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
