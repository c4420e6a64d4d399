package membership

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
)

// ErrNotReady means that this node does not lead, or has been elected very recently.
var ErrNotReady = errors.New("the leader was elected a moment ago and is not ready, or leads no more: try again")

// LevelError is why the next level cannot be raised.
type LevelError struct{ View leader.FormatUpgradeView }

// Error names the nodes that block the level and the remedy, or the remaining time.
func (e *LevelError) Error() string {
	switch v := e.View; {
	case v.Next == v.InForce:
		return fmt.Sprintf("format version %d is in force and no node supports a higher one: first run a newer version on all nodes", v.InForce)
	case len(v.BlockingServers()) > 0:
		return fmt.Sprintf("format version %d is in force, and format version %d is blocked by %s", v.InForce, v.Next, DescribeBlockers(v))
	default:
		return fmt.Sprintf("format version %d is in force, and format version %d must be supported by all nodes for another %v", v.InForce, v.Next, v.RemainingWait)
	}
}

// DescribeBlockers names the nodes that block the next level, with a remedy for each. It returns
// "" if no node does.
func DescribeBlockers(v leader.FormatUpgradeView) string {
	var parts []string
	for _, x := range v.BlockingServers() {
		node := nodeOf(x.Server)
		switch {
		case x.Silent:
			parts = append(parts, fmt.Sprintf("%s, which sends no heartbeats: start it, or remove it (shardway remove %s)", node, node))
		case x.MaxVersion == 0:
			parts = append(parts, node+", which has not reported its format versions yet: wait, or check its log")
		default:
			parts = append(parts, fmt.Sprintf("%s, which knows format version %d: run the version of the other nodes there", node, x.MaxVersion))
		}
	}
	return strings.Join(parts, "; ")
}

// Level returns the current and the next level, and what separates them, as of the last check. It
// returns nil before the first check.
func (k *Reconciler) Level() *leader.FormatUpgradeView { return k.levelView.Load() }

// Raise raises the level without waiting for FinalizeAfter. It returns nil once the new level
// applies. The error is a *LevelError, ErrNotReady, or an error of Raft.
func (k *Reconciler) Raise(ctx context.Context, done <-chan struct{}) error {
	answer := make(chan error, 1)
	select {
	case k.raiseRequests <- answer:
	case <-done:
		return ErrNotReady
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// raiseLevel raises the level if possible. It runs on the goroutine that adds servers, so no
// server is added concurrently.
func (k *Reconciler) raiseLevel(ctx context.Context, immediately bool) error {
	if !k.o.Ready() || !k.o.State().Bootstrapped() {
		return ErrNotReady
	}
	heard, ok := k.o.Heard(ctx)
	if !ok {
		return ErrNotReady
	}
	return k.raiseLevelFrom(ctx, heard, immediately)
}

// raiseLevelFrom is raiseLevel with the heartbeats that were just read.
func (k *Reconciler) raiseLevelFrom(ctx context.Context, heard []leader.MemberView, immediately bool) error {
	servers := ServersOf(k.o.Raft.Configuration()).All()
	k.collectLevels(ctx, servers, heard)
	v := k.levels.Update(time.Since(k.started), k.o.State().FormatVersion(), servers, heard)
	k.levelView.Store(&v)
	k.logBlockers(v)
	entry := k.levels.Raise(v, immediately)
	if entry == nil {
		return &LevelError{View: v}
	}
	if err := k.o.ProposeLevel(entry); err != nil {
		k.o.Log.Warn().Err(err).Uint8("format_version", uint8(v.Next)).Msg("upgrade not finalized")
		return err
	}
	k.o.Log.Info().Uint8("format_version", uint8(v.Next)).Uint8("before", uint8(v.InForce)).Bool("asked_for", immediately).Str("effect", "nodes without this level cannot return").Msg("level raised")
	v = k.levels.Update(time.Since(k.started), k.o.State().FormatVersion(), servers, heard)
	k.levelView.Store(&v)
	return nil
}

// collectLevels requests the supported levels of the heard servers, once for each process.
func (k *Reconciler) collectLevels(ctx context.Context, servers []string, heard []leader.MemberView) {
	for _, server := range servers {
		if !k.levels.NeedsReport(server, heard) {
			continue
		}
		if p, err := k.identify(ctx, server); err == nil {
			k.levels.RecordReport(leader.FormatReport{Term: k.o.Term, Server: server, Boot: p.Boot, Nonce: p.Nonce, MaxVersion: p.Level})
		}
	}
}

// logBlockers logs the nodes that block the next level when they change.
func (k *Reconciler) logBlockers(v leader.FormatUpgradeView) {
	behind := DescribeBlockers(v)
	if behind == k.loggedBlockers {
		return
	}
	k.loggedBlockers = behind
	if behind == "" {
		k.o.Log.Info().Uint8("format_version", uint8(v.InForce)).Msg("next level no longer blocked")
		return
	}
	var nodes []string
	for _, x := range v.BlockingServers() {
		nodes = append(nodes, nodeOf(x.Server))
	}
	k.o.Log.Warn().Strs("nodes", nodes).Uint8("format_version", uint8(v.InForce)).Uint8("next", uint8(v.Next)).Str("why", behind).Msg("upgrade-pending: nodes block the next level")
}

// admitsLevel reports whether a server that supports this level may be added. It logs each
// rejected server once.
func (k *Reconciler) admitsLevel(server string, knows ack.FormatVersion) bool {
	inForce := k.o.State().FormatVersion()
	if k.levels.Admits(inForce, knows) {
		delete(k.rejected, server)
		return true
	}
	if !k.rejected[server] {
		k.rejected[server] = true
		k.o.Log.Warn().Str("server", server).Uint8("format_version", uint8(inForce)).Uint8("knows", uint8(knows)).
			Str("remedy", "run the version of the other nodes on this node").Msg("upgrade-pending: server not added")
	}
	return false
}
