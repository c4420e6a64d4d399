package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/internal/timingrules"
	"shardway/node/control"
	"shardway/node/gossip"
	"shardway/shardmap"
)

// handOverLook is how often a node that gave leadership away looks who has it.
const handOverLook = 20 * time.Millisecond

// Policy returns what operators have asked of the maps, as far as this node's log tells.
func (n *Node) Policy() api.Policy {
	p := n.fsm.state.Load().Policy()
	out := api.Policy{Drained: names(p.Drained), Cordoned: names(p.Cordoned), Weights: map[string]uint32{}, Emptying: []api.EmptyingNode{}, Pins: []api.PinnedShard{}, Quarantined: n.quarantined(p), Since: p.Since}
	for id, w := range p.Weights {
		out.Weights[string(id)] = w
	}
	for _, s := range slices.Sorted(maps.Keys(p.Pins)) {
		out.Pins = append(out.Pins, api.PinnedShard{Shard: uint32(s), Node: string(p.Pins[s].Node), Zone: p.Pins[s].Zone})
	}
	for _, id := range slices.Sorted(maps.Keys(p.GradualDrains)) {
		out.Emptying = append(out.Emptying, api.EmptyingNode{Node: string(id), IdleFirst: timingrules.Short(p.GradualDrains[id].For)})
	}
	if p.Pause > 0 {
		out.Pause = timingrules.Short(p.Pause)
	}
	return out
}

// unknownNode returns the error for a node that the cluster does not have; it names those it has.
func (n *Node) unknownNode(node string) error {
	return api.UnknownNode(node, n.nodeIDs())
}

// nodeIDs returns the ids of the nodes that Raft, the map or gossip contains, in order.
func (n *Node) nodeIDs() []string {
	ids := map[shardmap.NodeID]bool{}
	voters, others := n.servers()
	for _, server := range slices.Concat(voters, others) {
		ids[shardmap.NodeID(nodeOf(server))] = true
	}
	for _, m := range n.fsm.state.Load().Committed().Members() {
		ids[m.ID] = true
	}
	for _, m := range n.gossip.Members() {
		if m.Node {
			ids[shardmap.NodeID(m.ID)] = true
		}
	}
	return names(ids)
}

// names returns a set of nodes in order.
func names(set map[shardmap.NodeID]bool) []string {
	out := []string{}
	for _, id := range slices.Sorted(maps.Keys(set)) {
		out = append(out, string(id))
	}
	return out
}

// drained reports whether this node is to own nothing.
func (n *Node) drained() bool { return n.fsm.state.Load().Policy().Drained[n.self] }

// asking is the question for a change of the policy; answer gets what became of its
// entry.
type asking struct {
	changes []ack.Change
	answer  chan<- error // cap 1
}

// police changes the policy on the leader. What is asked there is judged and done one
// after the other: two drains at once might leave too few voters, each for itself.
func (l *leadership) police(ctx context.Context, a api.Action) error {
	select {
	case l.policing <- struct{}{}:
		defer func() { <-l.policing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	change, err := l.changeOf(a)
	if err != nil {
		return err
	}
	if a.Verb == api.Drain {
		voters, _ := l.n.servers()
		views := l.heardOf(ctx, voters)
		s := l.n.fsm.state.Load()
		if err := drainable(change.Node, voters, views, s.Policy()); err != nil && !a.Force && !s.Policy().Leaves(change.Node) {
			return err
		}
		if a.Node == string(l.n.self) {
			if next := l.handOver(ctx); next != "" {
				return l.n.client.Call(ctx, next, control.Request{Kind: control.Do, Action: a}, nil)
			}
		}
	}
	return l.amend(ctx, change)
}

// changeOf returns what an action changes.
func (l *leadership) changeOf(a api.Action) (ack.Change, error) {
	c := ack.Change{Node: shardmap.NodeID(a.Node), Weight: a.Weight, Shard: shardmap.Shard(a.Shard), Zone: a.Zone}
	p := l.n.fsm.state.Load().Policy()
	asked := p.Leaves(c.Node) || p.Cordoned[c.Node] || p.Weights[c.Node] > 0
	if a.Node != "" && !l.n.hasNode(a.Node) && !asked {
		return c, l.n.unknownNode(a.Node)
	}
	switch a.Verb {
	case api.Drain:
		c.Safe = a.Safe
		if err := releaseTimeoutOf(&c, a.ReleaseTimeout); err != nil {
			return c, err
		}
		return drainOf(c, a.IdleFirst)
	case api.Cordon:
		c.Kind = ack.ChangeCordon
	case api.Uncordon:
		c.Kind = ack.ChangeUncordon
	case api.Weigh:
		c.Kind = ack.ChangeWeight
	case api.Pin:
		c.Kind = ack.ChangePin
		if a.Zone != "" && !l.n.hasZone(a.Zone) {
			return c, fmt.Errorf("%w: no node is in zone %q: `shardway nodes` lists them", api.ErrRefused, a.Zone)
		}
	case api.Unpin:
		c.Kind = ack.ChangeUnpin
	case api.AppRestarted:
		c.Kind = ack.ChangeAppRestarted
	case api.Resume:
		c.Kind = ack.ChangeResume
	case api.Pause:
		d, err := time.ParseDuration(a.For)
		if err != nil || d <= 0 || d > ack.MaxPause {
			return c, fmt.Errorf("%w: for = %q is no duration of at most %s", api.ErrInvalid, a.For, timingrules.Short(ack.MaxPause))
		}
		c.Kind, c.For = ack.ChangePause, d
	case api.Quarantine, api.Lift:
		return quarantineOf(a, p)
	case api.Remove, api.StepDown, api.Rebalance:
	}
	return c, nil
}

// releaseTimeoutOf takes the release timeout of a drain.
func releaseTimeoutOf(c *ack.Change, text string) error {
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > ack.MaxReleaseTimeout {
		return fmt.Errorf("%w: release_timeout = %q is no duration of at most %s", api.ErrInvalid, text, timingrules.Short(ack.MaxReleaseTimeout))
	}
	c.Release = d
	return nil
}

// drainOf returns what a drain changes: all at once, or first what is idle, for so long.
func drainOf(c ack.Change, idleFirst string) (ack.Change, error) {
	if idleFirst == "" {
		c.Kind = ack.ChangeDrain
		return c, nil
	}
	d, err := time.ParseDuration(idleFirst)
	if err != nil || d <= 0 || d > ack.MaxGradualDrain {
		return c, fmt.Errorf("%w: idle_first = %q is no duration of at most %s", api.ErrInvalid, idleFirst, timingrules.Short(ack.MaxGradualDrain))
	}
	c.Kind, c.For = ack.ChangeDrainGradually, d
	return c, nil
}

// hasNode reports whether a node is, or was lately, one of this cluster.
func (n *Node) hasNode(node string) bool {
	voters, others := n.servers()
	return serverOf(slices.Concat(voters, others), node) != "" || n.fsm.state.Load().Committed().Has(shardmap.NodeID(node)) ||
		slices.ContainsFunc(n.gossip.Members(), func(m gossip.Member) bool { return m.ID == node && m.Node })
}

func (n *Node) hasZone(zone string) bool {
	return slices.ContainsFunc(n.gossip.Members(), func(m gossip.Member) bool { return m.Node && m.Tags.Zone == zone })
}

// heardOf returns what this leader knows of the nodes. Just elected, it waits until it
// has heard from every voter, or could have: as the one to which a leader that is to be
// drained gave leadership a moment ago, it would take all others for gone.
func (l *leadership) heardOf(ctx context.Context, voters []string) []ack.MemberView {
	t := time.NewTicker(handOverLook)
	defer t.Stop()
	for {
		views, leads := l.view(ctx)
		missing := slices.ContainsFunc(voters, func(server string) bool {
			v, _ := viewOf(views, nodeOf(server))
			return v.SinceHeartbeat < 0 && !v.Crashed
		})
		if !leads || !missing || l.n.o.Clock.Precise()-l.began > l.n.timing().DeadAfter {
			return views
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return views
		}
	}
}

// drainable returns why a node must not be drained: who is drained is on its way out,
// and what that endangers is.
func drainable(node shardmap.NodeID, voters []string, views []ack.MemberView, p *ack.Policy) error {
	why, remedy := endangered(node, voters, views, p)
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: %s; %s", api.ErrRefused, why, remedy)
}

// endangered returns what the end of a node would leave undone, and what to do about it;
// empty: nothing. Too few voters might be left, or nobody to own its shards.
func endangered(node shardmap.NodeID, voters []string, views []ack.MemberView, p *ack.Policy) (why, remedy string) {
	var left, missing []string
	for _, server := range voters {
		id := shardmap.NodeID(nodeOf(server))
		if id == node {
			continue
		}
		v, _ := viewOf(views, string(id))
		why := ""
		switch {
		case v.SinceHeartbeat < 0 || v.Silent || v.Crashed:
			why = "is not heard"
		case v.Heartbeat.Leaving || v.Heartbeat.Goodbye:
			why = "is leaving"
		case p.Leaves(id):
			why = "is drained"
		}
		if why == "" {
			left = append(left, string(id))
		} else {
			missing = append(missing, string(id)+" "+why)
		}
	}
	if need := len(voters)/2 + 1; len(left) < need {
		also := ""
		if len(missing) > 0 {
			also = " (" + strings.Join(missing, ", ") + ")"
		}
		return fmt.Sprintf("without node %q, %d of %d voters are left and it takes %d%s: once it stops, nothing works", node, len(left), len(voters), need, also),
			"add a node first, or drain it with --force"
	}
	if !slices.ContainsFunc(views, func(v ack.MemberView) bool { return v.Node != node && v.Eligible && !p.Leaves(v.Node) }) {
		return fmt.Sprintf("nobody would own the shards of node %q: no other node can own any now", node), "`shardway nodes` tells their states"
	}
	return "", ""
}

// handOver gives leadership to another node, and returns who has it then, "" if none
// took it: what is on its way out is not to lead.
func (l *leadership) handOver(ctx context.Context) string {
	if err := await(ctx, func() error { return l.n.transfer(ctx) }); err != nil {
		l.log.Warn().Err(err).Msg("leadership transfer failed")
		return ""
	}
	t := time.NewTicker(handOverLook)
	defer t.Stop()
	for {
		switch leader := l.n.leader(); leader {
		case "":
		case string(l.n.self):
			return ""
		default:
			return leader
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return ""
		}
	}
}

// amend has the leader's loop put changes in line, and returns when they are in force
// here. A leader that was just elected takes them a moment later.
func (l *leadership) amend(ctx context.Context, changes ...ack.Change) error {
	t := time.NewTicker(handOverLook)
	defer t.Stop()
	for {
		err := l.amendNow(ctx, changes)
		if !errors.Is(err, ack.ErrNotYet) {
			return policyFault(err)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return policyFault(err)
		}
	}
}

func (l *leadership) amendNow(ctx context.Context, changes []ack.Change) error {
	answer := make(chan error, 1)
	select {
	case l.askings <- asking{changes, answer}:
	case <-l.done:
		return control.ErrNotLeader
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-answer:
		return err
	case <-l.done:
		return fmt.Errorf("%w: who was asked leads no more; whether it counts, `shardway policy` tells", api.ErrUnknown)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func policyFault(err error) error {
	switch {
	case err == nil, errors.Is(err, api.ErrNoLeader), errors.Is(err, api.ErrUnknown):
		return err
	case errors.Is(err, ack.ErrNotYet):
		return fmt.Errorf("%w: the leader was elected a moment ago and is not ready: try again", api.ErrRefused)
	case errors.Is(err, ack.ErrChange):
		return fmt.Errorf("%w: %w", api.ErrInvalid, err)
	case errors.Is(err, ack.ErrPolicyFull):
		return fmt.Errorf("%w: what operators have asked for takes 64 KiB at most: unpin shards, or lift quarantines, first", api.ErrRefused)
	}
	return refusal(err)
}

// ask puts changes of the policy in line.
func (l *leading) ask(ctx context.Context, a asking) {
	number, effects, err := l.driver.ChangePolicy(a.changes)
	if err != nil {
		a.answer <- err
	} else {
		l.policyCallers[number] = a.answer
	}
	l.perform(ctx, effects, nil)
}
