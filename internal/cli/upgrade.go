package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"shardway/admin/api"
	"shardway/admin/client"
)

type upgradeCommand struct {
	Status   upgradeStatusCommand   `cmd:"" help:"Show the format version in force and what each node supports."`
	Finalize upgradeFinalizeCommand `cmd:"" help:"Raise the format version now, without waiting for --finalize-after."`
}

// Help describes the format version.
func (c *upgradeCommand) Help() string {
	return `The format version is a number for what nodes may write to each other and into their
log. A new version of Shardway may support a higher one. It writes as before until the
leader raises the format version: once every node has reported that it supports the
next one, and --finalize-after has passed, or by upgrade finalize. Until then, nodes can
go back to the earlier version of Shardway. Afterwards, that version refuses to start
on the data directory.

A node that supports less, or that is not heard, blocks the upgrade: upgrade it, start
it, or run: shardway remove NODE.`
}

type upgradeStatusCommand struct {
	target
}

// Run shows the format version and what blocks the next one.
func (c *upgradeStatusCommand) Run(ctx context.Context, session *session) error {
	return c.upgrade(session, func(c *client.Client) (api.UpgradeState, error) { return c.UpgradeStatus(ctx) })
}

type upgradeFinalizeCommand struct {
	reasonFlag
	target
}

// Run raises the format version.
func (c *upgradeFinalizeCommand) Run(ctx context.Context, session *session) error {
	return c.upgrade(session, func(client *client.Client) (api.UpgradeState, error) { return client.FinalizeUpgrade(ctx, c.Reason) })
}

// upgrade runs call and prints the upgrade state it returns.
func (t *target) upgrade(session *session, call func(*client.Client) (api.UpgradeState, error)) error {
	adminClient, err := t.client(session)
	if err != nil {
		return err
	}
	defer adminClient.Close()
	state, err := call(adminClient)
	if err != nil {
		return err
	}
	if t.JSON {
		return writeJSON(session.out, state)
	}
	return writeUpgrade(session.out, state)
}

// writeUpgrade prints which format version each node supports, and when the next one will be raised.
func writeUpgrade(w io.Writer, upgrade api.UpgradeState) error {
	if len(upgrade.Nodes) == 0 {
		_, err := fmt.Fprintf(w, "format version %d is in force; no leader reports what the nodes support\n", upgrade.CurrentVersion)
		return err
	}
	table := newTable(w, "NODE", "SUPPORTS", fmt.Sprintf("FORMAT VERSION %d", upgrade.Next))
	for _, node := range upgrade.Nodes {
		supported, state := "-", "in force"
		if node.MaxFormatVersion > 0 {
			supported = strconv.Itoa(int(node.MaxFormatVersion))
		}
		switch {
		case upgrade.Next == upgrade.CurrentVersion:
		case node.BlocksUpgrade && !node.HasHeartbeat:
			state = "blocks: no heartbeat"
		case node.BlocksUpgrade:
			state = "blocks"
		default:
			state = "supported"
		}
		table.row(node.Node, supported, state)
	}
	if err := table.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nformat version %d is in force; %s\n", upgrade.CurrentVersion, strings.Map(printable, nextVersion(upgrade)))
	return err
}

// nextVersion describes when the next format version will be raised.
func nextVersion(upgrade api.UpgradeState) string {
	switch {
	case upgrade.Next == upgrade.CurrentVersion:
		return "no node supports a higher one"
	case upgrade.Behind != "":
		return fmt.Sprintf("format version %d is blocked by %s", upgrade.Next, upgrade.Behind)
	}
	return fmt.Sprintf("format version %d will be raised in %s, or now by: shardway upgrade finalize", upgrade.Next, upgrade.Wait)
}
