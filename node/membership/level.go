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

// LevelError is the error if the next level cannot be put into force.
type LevelError struct{ View leader.FormatUpgradeView }

// Error names the nodes that block the level and the remedy, or the remaining time.
func (e *LevelError) Error() string {
	switch view := e.View; {
	case view.Next == view.InForce:
		return fmt.Sprintf("format version %d is in force and no node supports a higher one: first run a newer version on all nodes", view.InForce)
	case len(view.BlockingServers()) > 0:
		return fmt.Sprintf("format version %d is in force, and format version %d is blocked by %s", view.InForce, view.Next, DescribeBlockers(view))
	default:
		return fmt.Sprintf("format version %d is in force, and format version %d must be supported by all nodes for another %v", view.InForce, view.Next, view.RemainingWait)
	}
}

// DescribeBlockers names the nodes that block the next level, with a remedy for each. It returns
// "" if no node does.
func DescribeBlockers(view leader.FormatUpgradeView) string {
	var parts []string
	for _, server := range view.BlockingServers() {
		node := nodeOf(server.Server)
		switch {
		case server.Silent:
			parts = append(parts, fmt.Sprintf("%s, which sends no heartbeats: start it, or remove it (shardway remove %s)", node, node))
		case server.MaxVersion == 0:
			parts = append(parts, node+", which has not reported its format versions yet: wait, or check its log")
		default:
			parts = append(parts, fmt.Sprintf("%s, which supports format version %d: run the version of the other nodes there", node, server.MaxVersion))
		}
	}
	return strings.Join(parts, "; ")
}

// Level returns the current and the next level, and the nodes that block the next level, as of the
// last check. It returns nil before the first check.
func (r *Reconciler) Level() *leader.FormatUpgradeView { return r.levelView.Load() }

// RaiseLevel raises the level without waiting for FinalizeAfter. It returns nil once the new level
// applies. The error is a *LevelError, ErrNotReady, or an error of Raft. The end of the leadership closes
// leadershipEnded.
func (r *Reconciler) RaiseLevel(ctx context.Context, leadershipEnded <-chan struct{}) error {
	result := make(chan error, 1)
	select {
	case r.levelRequests <- result:
	case <-leadershipEnded:
		return ErrNotReady
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// raiseLevel raises the level if possible. It runs on the goroutine that adds servers, so no
// server is added concurrently.
func (r *Reconciler) raiseLevel(ctx context.Context, immediately bool) error {
	if !r.options.Ready() || !r.options.State().Bootstrapped() {
		return ErrNotReady
	}
	views, leads := r.options.MemberViews(ctx)
	if !leads {
		return ErrNotReady
	}
	return r.raiseLevelWith(ctx, views, immediately)
}

// raiseLevelWith does the same as raiseLevel, with heartbeats that the caller has just read.
func (r *Reconciler) raiseLevelWith(ctx context.Context, views []leader.MemberView, immediately bool) error {
	servers := ServersOf(r.options.Raft.Configuration()).All()
	r.collectLevels(ctx, servers, views)
	level := r.levels.Update(time.Since(r.startedAt), r.options.State().FormatVersion(), servers, views)
	r.levelView.Store(&level)
	r.logBlockers(level)
	entry := r.levels.Raise(level, immediately)
	if entry == nil {
		return &LevelError{View: level}
	}
	if err := r.options.ProposeLevel(entry); err != nil {
		r.options.Log.Warn().Err(err).Uint8("format_version", uint8(level.Next)).Msg("upgrade not finalized")
		return err
	}
	r.options.Log.Info().Uint8("format_version", uint8(level.Next)).Uint8("before", uint8(level.InForce)).Bool("asked_for", immediately).Str("effect", "nodes without this level cannot return").Msg("level raised")
	level = r.levels.Update(time.Since(r.startedAt), r.options.State().FormatVersion(), servers, views)
	r.levelView.Store(&level)
	return nil
}

// collectLevels requests the supported levels of the heard servers, once for each process.
func (r *Reconciler) collectLevels(ctx context.Context, servers []string, views []leader.MemberView) {
	for _, server := range servers {
		if !r.levels.NeedsReport(server, views) {
			continue
		}
		if process, err := r.identify(ctx, server); err == nil {
			r.levels.RecordReport(leader.FormatReport{Term: r.options.Term, Server: server, Boot: process.Boot, Nonce: process.Nonce, MaxVersion: process.Level})
		}
	}
}

// logBlockers logs the nodes that block the next level when they change.
func (r *Reconciler) logBlockers(level leader.FormatUpgradeView) {
	blockers := DescribeBlockers(level)
	if blockers == r.loggedBlockers {
		return
	}
	r.loggedBlockers = blockers
	if blockers == "" {
		r.options.Log.Info().Uint8("format_version", uint8(level.InForce)).Msg("next level no longer blocked")
		return
	}
	var nodes []string
	for _, server := range level.BlockingServers() {
		nodes = append(nodes, nodeOf(server.Server))
	}
	r.options.Log.Warn().Strs("nodes", nodes).Uint8("format_version", uint8(level.InForce)).Uint8("next", uint8(level.Next)).Str("why", blockers).Msg("upgrade-pending: nodes block the next level")
}

// admitsLevel reports whether a server that supports this level may be added. It logs each
// rejected server once.
func (r *Reconciler) admitsLevel(server string, supported ack.FormatVersion) bool {
	inForce := r.options.State().FormatVersion()
	if r.levels.Admits(inForce, supported) {
		delete(r.loggedRejections, server)
		return true
	}
	if !r.loggedRejections[server] {
		r.loggedRejections[server] = true
		r.options.Log.Warn().Str("server", server).Uint8("format_version", uint8(inForce)).Uint8("knows", uint8(supported)).
			Str("remedy", "run the version of the other nodes on this node").Msg("upgrade-pending: server not added")
	}
	return false
}
