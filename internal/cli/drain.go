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
	Node      string        `arg:"" optional:"" help:"Id of the node; else the one that is asked."`
	Local     bool          `help:"Drain the process on this machine until it stops, without a token; only warn where --force would be needed."`
	Data      string        `help:"With --local, the node's data directory (else SHARDWAY_DATA, else ./data)." placeholder:"DIR"`
	Wait      bool          `help:"Wait until the node has no shards, requests and WebSockets; show the remaining ones."`
	Timeout   time.Duration `help:"With --wait: fail after this time; the drain continues (0: no limit)." placeholder:"DURATION"`
	IdleFirst time.Duration `help:"Move busy shards only after so long, instead of after --drain-timeout (0: after --drain-timeout)." placeholder:"DURATION"`
	Safe      bool          `help:"Keep shards on the node that its app does not release."`
	Release   time.Duration `name:"release-timeout" help:"How long the app may take to release a shard, up to 1m (0: the node's --release-timeout)." placeholder:"DURATION"`
	Force     bool          `help:"Drain even if too few voters, or no other owner, would remain."`
	target
}

// Help tells what a drained node still does.
func (c *drainCommand) Help() string {
	return `A drained node owns no shards until it is uncordoned. Without NODE, the node at --admin
is drained, without a confirmation. The node stays ready, forwards requests and votes.
A leader transfers its leadership first. Afterwards the node can be stopped, or its app
replaced, without further moves.

With --idle-first, a shard moves once no request runs for it. Resumable WebSockets do not
count as running: they are handed over, some at a time. Shards that are still busy after
this time move as without the flag: their requests have --drain-timeout to finish.

With --safe, a shard that the app does not release stays on the node and is served there.
With --wait, the command shows the reason of the app. Drain again to try again.

With --local, only the process on this machine is drained: it owns no shards and is no
longer ready. The next process on the data directory owns shards again.`
}

// Run drains a node.
func (c *drainCommand) Run(ctx context.Context, s *session) error {
	if err := c.contradiction(); err != nil {
		return err
	}
	if c.Local {
		return c.leave(ctx, s)
	}
	client, err := c.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	which := ""
	if c.Node == "" {
		status, wrong := client.Status(ctx)
		if wrong != nil {
			return wrong
		}
		c.Node, which = status.Node, ", the one that was asked,"
	}
	idleFirst := ""
	if c.IdleFirst > 0 {
		idleFirst = c.IdleFirst.String()
	}
	release := ""
	if c.Release > 0 {
		release = c.Release.String()
	}
	if err = client.Do(ctx, api.Action{Verb: api.Drain, Node: c.Node, Force: c.Force, IdleFirst: idleFirst, Safe: c.Safe, ReleaseTimeout: release}); err != nil {
		return err
	}
	begun := "node " + c.Node + which + " is to own nothing until `shardway uncordon " + c.Node + "`; `shardway nodes` shows what is left"
	if which != "" && c.Wait && !c.JSON {
		if _, err = fmt.Fprintln(s.out, begun); err != nil {
			return err
		}
	}
	var epoch uint64
	return c.finish(ctx, s, begun, func(ctx context.Context) (api.DrainState, error) {
		m, err := client.MapAfter(ctx, epoch, drainLook) // at once if it is newer
		if err != nil {
			return api.DrainState{}, err
		}
		epoch = m.Epoch
		return client.DrainState(ctx, c.Node)
	})
}

// contradiction returns what is wrong with the flags.
func (c *drainCommand) contradiction() error {
	switch {
	case c.Local && (c.Node != "" || c.Admin != ""):
		return misuse("--local is for the node of a data directory: name that with --data DIR, and neither a node nor --admin")
	case c.Local && c.Force:
		return misuse("--local refuses nothing, it warns: leave out --force")
	case c.Local && c.IdleFirst != 0:
		return misuse("--idle-first is asked of the cluster, --local of a process: leave out one")
	case c.Local && (c.Safe || c.Release != 0):
		return misuse("--safe and --release-timeout are asked of the cluster, --local of a process: leave out one")
	case c.Release < 0 || c.Release > api.MaxReleaseTimeout:
		return misuse(fmt.Sprintf("--release-timeout %s is not between 0 and %s: give one such as 30s", c.Release, api.MaxReleaseTimeout))
	case c.IdleFirst < 0:
		return misuse(fmt.Sprintf("--idle-first %s is negative: give one such as 30s, or 0 to move all at once", c.IdleFirst))
	case !c.Local && c.Data != "":
		return misuse("--data goes with --local")
	case !c.Wait && c.Timeout != 0:
		return misuse("--timeout bounds --wait: give both")
	case c.Timeout < 0:
		return misuse(fmt.Sprintf("--timeout %s is negative: give one such as 10m, or 0 to wait without a limit", c.Timeout))
	}
	return nil
}

// leave drains the process on a data directory.
func (c *drainCommand) leave(ctx context.Context, s *session) error {
	defaults := config.Default()
	client, err := client.NewLocal(cmp.Or(c.Data, variable(s.environ, "SHARDWAY_DATA"), defaults.Data))
	if err != nil {
		return err
	}
	defer client.Close()
	d, err := client.Drain(ctx)
	if err != nil {
		return err
	}
	c.Node = d.Node
	if d.Warning != "" {
		s.complain("warning: " + d.Warning)
	}
	first := true
	return c.finish(ctx, s, "node "+c.Node+" is to own nothing for as long as this process runs", func(ctx context.Context) (api.DrainState, error) {
		if !first {
			if err := pause(ctx, selfLook); err != nil {
				return api.DrainState{}, err
			}
		}
		first = false
		return client.State(ctx)
	})
}

// finish says that a drain has begun or, with --wait, that nothing is left.
func (c *drainCommand) finish(ctx context.Context, s *session, begun string, look func(context.Context) (api.DrainState, error)) error {
	look = c.warnOfHolds(s, look)
	if !c.Wait {
		_, _ = look(ctx) // the drain has begun, whatever comes of this
	}
	if c.Wait {
		progress := s.out
		if c.JSON {
			progress = io.Discard
		}
		if err := c.await(ctx, progress, look); err != nil {
			return err
		}
		begun = "node " + c.Node + " owns nothing"
	}
	if c.JSON {
		return writeJSON(s.out, done{Action: api.Drain, Node: c.Node, Done: true})
	}
	_, err := fmt.Fprintln(s.out, begun)
	return err
}

// warnOfHolds returns look with a warning, once, if the drain moves shards that the app holds.
func (c *drainCommand) warnOfHolds(s *session, look func(context.Context) (api.DrainState, error)) func(context.Context) (api.DrainState, error) {
	warned := c.IdleFirst > 0
	return func(ctx context.Context) (api.DrainState, error) {
		d, err := look(ctx)
		if err == nil && d.Held > 0 && !warned {
			warned = true
			text := fmt.Sprintf("warning: the app at node %s holds %s (Shardway-Hold), and this drain ends the holds after --drain-timeout", c.Node, counted(d.Held, "shard"))
			if !c.Local {
				text += "; to wait for them, run: shardway drain --idle-first 1h " + c.Node
			}
			s.complain(text)
		}
		return d, err
	}
}

const (
	// drainLook is the longest time between two looks at how far a drain has come, and
	// selfLook the time between two at the process of this machine.
	drainLook = 500 * time.Millisecond
	selfLook  = 200 * time.Millisecond
	// lastingLooks in a row show that a drain was taken back, or that the shards stay: the log
	// of a node may be behind that of the leader, and another node may be eligible in a moment.
	lastingLooks = 3
)

// await returns nil once nothing is left at the node: a map is committed when all nodes have
// finished what it takes away. It returns an error when a reason for the shards to stay has
// stood for lastingLooks looks, when the drain was taken back, or at the deadline.
func (c *drainCommand) await(ctx context.Context, w io.Writer, look func(context.Context) (api.DrainState, error)) error {
	if c.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, c.Timeout)
		defer stop()
	}
	p := progress{w: w, inPlace: terminal(w)}
	defer p.end()
	var last api.DrainState
	most, unasked, staying := 0, 0, 0
	for {
		d, err := look(ctx)
		switch {
		case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return c.late(last)
		case err != nil:
			return err
		case !d.Left():
			return c.unreleased(d)
		}
		unasked, staying = inARow(unasked, !d.Requested), inARow(staying, d.BlockedBy != "")
		switch {
		case staying == lastingLooks:
			return fmt.Errorf("%s at node %s, and they stay there: %s", left(d), c.Node, d.BlockedBy)
		case unasked == lastingLooks:
			return fmt.Errorf("the drain of node %s was taken back with %s", c.Node, left(d))
		}
		last = d
		there := d.Shards + max(d.Requests, 0) + max(d.Sockets, 0)
		most = max(most, there)
		if err = p.part(most-there, most, left(d)); err != nil {
			return err
		}
	}
}

// late returns the error for a drain that is not over at the deadline; last is what was
// reported last, zero if nothing was.
func (c *drainCommand) late(last api.DrainState) error {
	if last.Node == "" {
		return fmt.Errorf("after %s, node %s has not been reported on: the drain goes on", c.Timeout, c.Node)
	}
	why := cmp.Or(last.BlockedBy, last.WaitsFor)
	if why != "" {
		why = " (" + why + ")"
	}
	return fmt.Errorf("after %s, %s at node %s: the drain goes on%s", c.Timeout, left(last), c.Node, why)
}

// inARow returns the number of looks in a row for which something is so.
func inARow(n int, so bool) int {
	if so {
		return n + 1
	}
	return 0
}

// unreleased returns an error if shards left the node though its app had not released them:
// what the app had not written is missing at their next owners.
func (c *drainCommand) unreleased(d api.DrainState) error {
	if d.Unreleased == 0 {
		return nil
	}
	why := ""
	if d.UnreleasedWhy != "" {
		why = ": " + d.UnreleasedWhy
	}
	return fmt.Errorf("node %s owns nothing, but %s went unreleased%s; see the log of node %s", c.Node, counted(d.Unreleased, "shard"), why, c.Node)
}

// left says what is left at a node, as far as it told.
func left(d api.DrainState) string {
	text := counted(d.Shards, "shard")
	if d.Held > 0 {
		text += fmt.Sprintf(" (%d held by the app)", d.Held)
	}
	if d.Requests >= 0 && d.Sockets >= 0 {
		text += ", " + counted(d.Requests, "request") + ", " + counted(d.Sockets, "WebSocket")
	}
	return text + " left"
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// pause waits for d, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
