package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"shardway/admin/api"
	"shardway/admin/client"
	"shardway/config"
)

type drainCommand struct {
	Node      string        `arg:"" optional:"" help:"ID of the node, or NODE/INSTANCE for one app instance (default: the node at --admin)."`
	Local     bool          `help:"Drain the process on this machine until it stops, without a token; only warn where --force would be needed."`
	Data      string        `help:"With --local, the node's data directory (else SHARDWAY_DATA, else ./data)." placeholder:"DIR"`
	Wait      bool          `help:"Wait until the node has no shards, requests and WebSockets; show the remaining ones."`
	Timeout   time.Duration `help:"With --wait: fail after this time; the drain continues (0: no limit)." placeholder:"DURATION"`
	IdleFirst time.Duration `help:"Time after which busy shards move, too (0: --drain-timeout)." placeholder:"DURATION"`
	Safe      bool          `help:"Keep shards on the node that its app does not release."`
	Release   time.Duration `name:"release-timeout" help:"How long the app may take to release a shard, up to 1m (0: the node's --release-timeout)." placeholder:"DURATION"`
	Force     bool          `help:"Drain even if too few voters, or no other owner, would remain."`
	reasonFlag
	target
}

// Help describes the state of a drained node.
func (c *drainCommand) Help() string {
	return `A drained node owns no shards until it is uncordoned. Without NODE, the node at --admin
is drained, without a confirmation. The node stays ready, forwards requests and votes.
A leader transfers its leadership first. Afterwards the node can be stopped, or its app
replaced, without further moves.

With --idle-first, a shard moves once no request runs for it. Resumable WebSockets do not
count as running: they are handed over, some at a time. Shards that are still busy after
this time move as without the flag: their requests have --drain-timeout to finish.

NODE/INSTANCE moves the shards of one app instance to the other instances of its node.
Only --force and --wait apply to it.

With --safe, a shard that the app does not release stays on the node and is served there.
With --wait, the command shows the reason of the app. Drain again to try again.

With --local, only the process on this machine is drained: it owns no shards and is no
longer ready. The next process on the data directory owns shards again.`
}

// Run drains a node.
func (c *drainCommand) Run(ctx context.Context, session *session) error {
	if err := c.checkFlags(); err != nil {
		return err
	}
	if c.Local {
		return c.drainLocal(ctx, session)
	}
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	isDefaultNode := c.Node == ""
	if isDefaultNode {
		status, statusErr := client.Status(ctx)
		if statusErr != nil {
			return statusErr
		}
		c.Node = status.Node
	}
	result, err := client.Do(ctx, c.action())
	if err != nil {
		return err
	}
	if result.Warning != "" {
		session.printError("warning: " + result.Warning)
	}
	message := c.startMessage(isDefaultNode)
	if isDefaultNode && c.Wait && !c.JSON {
		if _, err = fmt.Fprintln(session.out, message); err != nil {
			return err
		}
	}
	var epoch uint64
	return c.report(ctx, session, message, func(ctx context.Context) (api.DrainState, error) {
		shardMap, err := client.MapAfter(ctx, epoch, drainPollInterval) // returns immediately if there is a newer map
		if err != nil {
			return api.DrainState{}, err
		}
		epoch = shardMap.Epoch
		return client.DrainState(ctx, c.Node)
	})
}

// action returns the action that starts the drain of c.Node.
func (c *drainCommand) action() api.Action {
	action := api.Action{Verb: api.Drain, Node: c.Node, Force: c.Force, Safe: c.Safe, Reason: c.Reason}
	if c.IdleFirst > 0 {
		action.IdleFirst = c.IdleFirst.String()
	}
	if c.Release > 0 {
		action.ReleaseTimeout = c.Release.String()
	}
	return action
}

// startMessage returns the message that the drain has started. isDefaultNode is set if the command
// line did not name the node.
func (c *drainCommand) startMessage(isDefaultNode bool) string {
	node := describeOwner(c.Node)
	if isDefaultNode {
		node += ", which received the command,"
	}
	return node + " is draining until `shardway uncordon " + c.Node + "`; `shardway nodes` shows its progress"
}

// checkFlags returns an error for contradictory or invalid flags.
func (c *drainCommand) checkFlags() error {
	switch {
	case c.Local && (c.Node != "" || c.Admin != ""):
		return usageError("--local is for the node of a data directory: name that with --data DIR, and neither a node nor --admin")
	case c.Local && c.Force:
		return usageError("--local refuses nothing, it warns: leave out --force")
	case c.Local && c.Reason != "":
		return usageError("--reason is stored by the cluster, and --local is for one process: leave out one")
	case c.Local && c.IdleFirst != 0:
		return usageError("--idle-first is asked of the cluster, --local of a process: leave out one")
	case c.Local && (c.Safe || c.Release != 0):
		return usageError("--safe and --release-timeout are asked of the cluster, --local of a process: leave out one")
	case c.Release < 0 || c.Release > api.MaxReleaseTimeout:
		return usageError(fmt.Sprintf("--release-timeout %s is not between 0 and %s: give a value such as 30s", c.Release, api.MaxReleaseTimeout))
	case c.IdleFirst < 0:
		return usageError(fmt.Sprintf("--idle-first %s is negative: give a value such as 30s, or 0 to move all at once", c.IdleFirst))
	case !c.Local && c.Data != "":
		return usageError("--data goes with --local")
	case !c.Wait && c.Timeout != 0:
		return usageError("--timeout bounds --wait: give both")
	case c.Timeout < 0:
		return usageError(fmt.Sprintf("--timeout %s is negative: give a value such as 10m, or 0 to wait without a limit", c.Timeout))
	}
	return nil
}

// drainLocal drains the process that uses a data directory.
func (c *drainCommand) drainLocal(ctx context.Context, session *session) error {
	defaults := config.Default()
	client, err := client.NewLocal(cmp.Or(c.Data, variable(session.environ, "SHARDWAY_DATA"), defaults.Data))
	if err != nil {
		return err
	}
	defer client.Close()
	state, err := client.Drain(ctx)
	if err != nil {
		return err
	}
	c.Node = state.Node
	if state.Warning != "" {
		session.printError("warning: " + state.Warning)
	}
	isFirstPoll := true
	return c.report(ctx, session, "node "+c.Node+" is draining until its process ends", func(ctx context.Context) (api.DrainState, error) {
		if !isFirstPoll {
			if err := sleep(ctx, localPollInterval); err != nil {
				return api.DrainState{}, err
			}
		}
		isFirstPoll = false
		return client.State(ctx)
	})
}

// report prints that the drain has started or, with --wait, waits until it is complete and prints
// that. fetchState returns the progress.
func (c *drainCommand) report(ctx context.Context, session *session, message string, fetchState func(context.Context) (api.DrainState, error)) error {
	fetchState = c.warnAboutHolds(session, fetchState)
	if !c.Wait {
		_, _ = fetchState(ctx) // only for the warning: the drain has started
	}
	if c.Wait {
		progress := session.out
		if c.JSON {
			progress = io.Discard
		}
		if err := c.waitDrained(ctx, progress, fetchState); err != nil {
			return err
		}
		message = describeOwner(c.Node) + " owns nothing"
	}
	if c.JSON {
		return writeJSON(session.out, actionResult{Action: api.Drain, Node: c.Node, Done: true})
	}
	_, err := fmt.Fprintln(session.out, message)
	return err
}

// warnAboutHolds wraps fetchState. It prints one warning if the drain moves shards that the app holds.
func (c *drainCommand) warnAboutHolds(session *session, fetchState func(context.Context) (api.DrainState, error)) func(context.Context) (api.DrainState, error) {
	hasWarned := c.IdleFirst > 0
	return func(ctx context.Context) (api.DrainState, error) {
		state, err := fetchState(ctx)
		if err == nil && state.Held > 0 && !hasWarned {
			hasWarned = true
			text := fmt.Sprintf("warning: the app at node %s holds %s (Shardway-Hold), and this drain ends the holds after --drain-timeout", c.Node, pluralize(state.Held, "shard"))
			if !c.Local {
				text += "; to wait for them, run: shardway drain --idle-first 1h " + c.Node
			}
			session.printError(text)
		}
		return state, err
	}
}

const (
	// drainPollInterval is the maximum interval between two requests for the progress of a drain, and
	// localPollInterval the interval for a drain of a local process.
	drainPollInterval = 500 * time.Millisecond
	localPollInterval = 200 * time.Millisecond
	// stablePolls is the number of consecutive responses that prove that a drain was cancelled or is
	// blocked. Fewer are not enough: the log of a node may lack entries of the log of the leader, and
	// another node may become eligible soon.
	stablePolls = 3
)

// waitDrained returns nil once the node has no shards, requests and upgraded connections. It returns an
// error if the drain is blocked or cancelled in stablePolls consecutive responses, or at the timeout.
func (c *drainCommand) waitDrained(ctx context.Context, w io.Writer, fetchState func(context.Context) (api.DrainState, error)) error {
	if c.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, c.Timeout)
		defer stop()
	}
	bar := progress{w: w, inPlace: isTerminal(w)}
	defer bar.end()
	var lastState api.DrainState
	maxRemaining, cancelledPolls, blockedPolls := 0, 0, 0
	for {
		state, err := fetchState(ctx)
		switch {
		case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return c.timeoutError(lastState)
		case err != nil:
			return err
		case !state.Left():
			return c.checkReleased(state)
		}
		cancelledPolls = countConsecutive(cancelledPolls, !state.Requested)
		blockedPolls = countConsecutive(blockedPolls, state.BlockedBy != "")
		switch {
		case blockedPolls == stablePolls:
			return fmt.Errorf("%s at node %s, and they do not move: %s", describeRemaining(state), c.Node, state.BlockedBy)
		case cancelledPolls == stablePolls:
			return fmt.Errorf("the drain of node %s was cancelled with %s", c.Node, describeRemaining(state))
		}
		lastState = state
		remaining := state.Shards + max(state.Requests, 0) + max(state.Sockets, 0)
		maxRemaining = max(maxRemaining, remaining)
		if err = bar.part(maxRemaining-remaining, maxRemaining, describeRemaining(state)); err != nil {
			return err
		}
	}
}

// timeoutError returns the error for a drain that is not complete at the timeout. lastState is the last
// known progress; the zero value means unknown.
func (c *drainCommand) timeoutError(lastState api.DrainState) error {
	if lastState.Node == "" {
		return fmt.Errorf("no node reported the state of node %[2]s within %[1]s: the drain continues", c.Timeout, c.Node)
	}
	reason := cmp.Or(lastState.BlockedBy, lastState.WaitsFor)
	if reason != "" {
		reason = " (" + reason + ")"
	}
	return fmt.Errorf("after %s, %s at node %s: the drain continues%s", c.Timeout, describeRemaining(lastState), c.Node, reason)
}

// countConsecutive returns count+1 if the condition holds, and otherwise 0.
func countConsecutive(count int, holds bool) int {
	if holds {
		return count + 1
	}
	return 0
}

// checkReleased returns an error if shards moved although the app had not released them. The next
// owners then lack the data that the app had not written.
func (c *drainCommand) checkReleased(state api.DrainState) error {
	if state.Unreleased == 0 {
		return nil
	}
	reason := ""
	if state.UnreleasedWhy != "" {
		reason = ": " + state.UnreleasedWhy
	}
	return fmt.Errorf("node %s owns nothing, but %s went unreleased%s; see the log of node %s", c.Node, pluralize(state.Unreleased, "shard"), reason, c.Node)
}

// describeRemaining describes the remaining shards, requests and WebSockets of a node.
func describeRemaining(state api.DrainState) string {
	text := pluralize(state.Shards, "shard")
	if state.Held > 0 {
		text += fmt.Sprintf(" (%d held by the app)", state.Held)
	}
	if state.Requests >= 0 && state.Sockets >= 0 {
		text += ", " + pluralize(state.Requests, "request") + ", " + pluralize(state.Sockets, "WebSocket")
	}
	return text + " left"
}

// pluralize returns the count with the noun in the singular or plural, such as "1 shard" or "2 shards".
func pluralize(count int, noun string) string {
	if count == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", count, noun)
}

// sleep waits for the duration. It returns an error if ctx ends earlier.
func sleep(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
