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

// ErrNotReady reports that this node does not lead, or was elected very recently.
var ErrNotReady = errors.New("the leader was elected a moment ago and is not ready, or leads no more: try again")

// LevelError is the error if the next format version cannot be put into force.
type LevelError struct{ View leader.FormatUpgradeView }

// Error names the nodes that block the format version and the remedy, or the remaining time.
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

// DescribeBlockers names the nodes that block the next format version, with a remedy for each. It returns
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

// Level returns the format version in force, the next one, and the nodes that block the next one, as of
// the last check. It returns nil before the first check.
func (r *Reconciler) Level() *leader.FormatUpgradeView { return r.upgradeView.Load() }

// RaiseLevel raises the format version without waiting for FinalizeAfter. It returns nil once the new
// version is in force. The error is a *LevelError, ErrNotReady, or an error of Raft. The end of the leadership closes
// leadershipEnded.
func (r *Reconciler) RaiseLevel(ctx context.Context, leadershipEnded <-chan struct{}) error {
	result := make(chan error, 1)
	select {
	case r.upgradeRequests <- result:
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

// raiseFormatVersion raises the format version if possible. It runs on the goroutine that adds servers, so no
// server is added concurrently.
func (r *Reconciler) raiseFormatVersion(ctx context.Context, immediately bool) error {
	if !r.options.Ready() || !r.options.State().Bootstrapped() {
		return ErrNotReady
	}
	views, leads := r.options.MemberViews(ctx)
	if !leads {
		return ErrNotReady
	}
	return r.raiseFormatVersionWith(ctx, views, immediately)
}

// raiseFormatVersionWith does the same as raiseFormatVersion, with heartbeats that the caller has just read.
func (r *Reconciler) raiseFormatVersionWith(ctx context.Context, views []leader.MemberView, immediately bool) error {
	servers := ServersOf(r.options.Raft.Configuration()).All()
	r.collectFormatVersions(ctx, servers, views)
	view := r.upgrade.Update(time.Since(r.startedAt), r.options.State().FormatVersion(), servers, views)
	r.upgradeView.Store(&view)
	r.logBlockers(view)
	entry := r.upgrade.Raise(view, immediately)
	if entry == nil {
		return &LevelError{View: view}
	}
	if err := r.options.ProposeLevel(entry); err != nil {
		r.options.Log.Warn().Err(err).Uint8("format_version", uint8(view.Next)).Msg("upgrade not finalized")
		return err
	}
	r.options.Log.Info().Uint8("format_version", uint8(view.Next)).Uint8("before", uint8(view.InForce)).Bool("asked_for", immediately).Str("effect", "nodes without this level cannot return").Msg("level raised")
	view = r.upgrade.Update(time.Since(r.startedAt), r.options.State().FormatVersion(), servers, views)
	r.upgradeView.Store(&view)
	return nil
}

// collectFormatVersions asks the servers that send heartbeats which format versions they support, once
// for each process.
func (r *Reconciler) collectFormatVersions(ctx context.Context, servers []string, views []leader.MemberView) {
	for _, server := range servers {
		if !r.upgrade.NeedsReport(server, views) {
			continue
		}
		if process, err := r.identify(ctx, server); err == nil {
			r.upgrade.RecordReport(leader.FormatReport{Term: r.options.Term, Server: server, Boot: process.Boot, Nonce: process.Nonce, MaxVersion: process.Level})
		}
	}
}

// logBlockers logs the nodes that block the next format version when they change.
func (r *Reconciler) logBlockers(view leader.FormatUpgradeView) {
	blockers := DescribeBlockers(view)
	if blockers == r.loggedBlockers {
		return
	}
	r.loggedBlockers = blockers
	if blockers == "" {
		r.options.Log.Info().Uint8("format_version", uint8(view.InForce)).Msg("next level no longer blocked")
		return
	}
	var nodes []string
	for _, server := range view.BlockingServers() {
		nodes = append(nodes, nodeOf(server.Server))
	}
	r.options.Log.Warn().Strs("nodes", nodes).Uint8("format_version", uint8(view.InForce)).Uint8("next", uint8(view.Next)).Str("reason", blockers).Msg("upgrade-pending: nodes block the next level")
}

// admitsFormatVersion reports whether a server that supports format versions up to supported may be
// added. It logs each
// rejected server once.
func (r *Reconciler) admitsFormatVersion(server string, supported ack.FormatVersion) bool {
	inForce := r.options.State().FormatVersion()
	if r.upgrade.Admits(inForce, supported) {
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
