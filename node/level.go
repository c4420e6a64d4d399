package node

import (
	"context"
	"errors"
	"fmt"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/node/control"
)

// unknownLevel returns the error of a node whose log has a level (format version) that this program does
// not support, with the remedy.
func unknownLevel(err error) error {
	if level, ok := errors.AsType[*ack.LevelError](err); ok && level.Outdated() {
		return fmt.Errorf("node: the data directory was created by a development version: %w: start with an empty --data directory", err)
	}
	return fmt.Errorf("node: this cluster is beyond this program: %w: run the version of the other nodes on this --data directory (a finalized upgrade cannot be taken back)", err)
}

// keepLevel stores the level in force of the state s in the data directory, and announces it by gossip. It
// does nothing if that level is already stored.
func (n *Node) keepLevel(s *ack.State) {
	l := uint8(s.Level())
	if l <= max(n.o.Dir.Level(), uint8(ack.MinLevel)) {
		return
	}
	err := n.o.Dir.KeepLevel(l)
	if err == nil {
		err = n.gossip.SetTags(n.tags())
	}
	if err != nil {
		n.fail(err)
	}
}

// UpgradeStatus returns the level in force, the next level, and the nodes that do not support the next
// level yet. If the leader does not respond, the result contains only the level in force, from the log of
// this node.
func (n *Node) UpgradeStatus(ctx context.Context) api.UpgradeState {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	if told, err := n.askForLevel(ctx, false, ""); err == nil {
		return told
	}
	inForce := uint8(n.fsm.state.Load().Level())
	return api.UpgradeState{InForce: inForce, Next: inForce, Nodes: []api.NodeUpgrade{}}
}

// FinalizeUpgrade puts the next level into force. Only the leader can do that, so another node sends a
// request to the leader.
func (n *Node) FinalizeUpgrade(ctx context.Context, by string) (api.UpgradeState, error) {
	ctx, cancel := context.WithTimeout(ctx, control.HandlerTimeout)
	defer cancel()
	return n.askForLevel(ctx, true, by)
}

// askForLevel asks the leader for the state of the upgrade. If raise is true, the leader first puts the
// next level into force. by is the requester, for the log.
func (n *Node) askForLevel(ctx context.Context, raise bool, by string) (s api.UpgradeState, err error) {
	if l := n.leadership(); l != nil {
		return l.Upgrade(ctx, raise, by)
	}
	leader := n.view.Leader()
	if leader == "" {
		return s, fmt.Errorf("%w: %s", api.ErrNoLeader, n.leaderless())
	}
	err = n.client.CallLeader(ctx, leader, control.Request{Kind: control.Level, Firm: raise, By: by}, &s)
	return s, err
}

// levelBehind returns which nodes prevent the next level. The result is zero if there is no next level, and
// nil if the leader does not respond. The leader is asked only if there is a next level.
func (n *Node) levelBehind(ctx context.Context) *api.UpgradeState {
	if !n.view.HasNextLevel() {
		return &api.UpgradeState{}
	}
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	told, err := n.askForLevel(ctx, false, "")
	if err != nil {
		return nil
	}
	return &told
}
