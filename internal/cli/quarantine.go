package cli

import (
	"context"
	"fmt"
	"slices"

	"shardway/admin/api"
	"shardway/admin/client"
)

type quarantineCommand struct {
	Key   string  `arg:"" optional:"" help:"The key, as in requests; without a key or hash, list the quarantined keys."`
	For   string  `help:"Duration, up to 168h; an election restarts it (default: until --lift)." placeholder:"DURATION"`
	Lift  bool    `help:"End the quarantine of the key."`
	Hash  string  `help:"key_hash of the key, as in access logs and poison-suspect; with --shard." placeholder:"HASH"`
	Shard *uint32 `help:"Shard of the key with this --hash." placeholder:"N"`
	serviceFlag
	reasonFlag
	target
}

// Help describes the effect of a quarantine.
func (c *quarantineCommand) Help() string {
	return `Each node responds to requests of a quarantined key with 503 and Shardway-Error:
quarantined, and does not forward them to the owner or the app. Requests that are already
running continue. Shardway never quarantines a key automatically.`
}

// Run quarantines a key, ends a quarantine, or lists the keys in quarantine.
func (c *quarantineCommand) Run(ctx context.Context, session *session) error {
	node, err := c.client(session)
	if err != nil {
		return err
	}
	defer node.Close()
	switch {
	case c.Key != "" && (c.Hash != "" || c.Shard != nil):
		return usageError("a key and its --hash or --shard exclude each other: use the key, or --shard with --hash, not both")
	case (c.Hash != "") != (c.Shard != nil):
		return usageError("--hash and --shard go together, as in: shardway quarantine --shard 7 --hash 0123456789abcdef")
	case c.Lift && c.For != "":
		return usageError("--lift ends the quarantine immediately: omit --for")
	case c.Key == "" && c.Hash == "":
		return c.list(ctx, session, node)
	}
	name := client.KeyName{Service: c.Service, Key: c.Key, Hash: c.Hash, Shard: c.Shard}
	if c.Lift {
		lifted, liftErr := node.Lift(ctx, name, c.Reason)
		if liftErr != nil {
			return liftErr
		}
		return c.printResult(session, lifted, "is served again")
	}
	until := "until `shardway quarantine --lift`"
	if c.For != "" {
		until = "for " + c.For
	}
	action, err := node.Quarantine(ctx, name, c.For, c.Reason)
	if err != nil {
		return err
	}
	return c.printResult(session, action, "is in quarantine "+until)
}

// printResult prints the key of an action that the cluster has performed, and the new state of the key.
func (c *quarantineCommand) printResult(session *session, action api.Action, state string) error {
	if c.JSON {
		return writeJSON(session.out, action)
	}
	_, err := fmt.Fprintf(session.out, "key_hash %s of %s %s\n", action.Hash, describeShard(action.Shard, action.Service, nil), state)
	return err
}

// list prints the quarantined keys.
func (c *quarantineCommand) list(ctx context.Context, session *session, node *client.Client) error {
	if c.Lift || c.For != "" || c.Reason != "" {
		return usageError("--lift, --for and --reason need a key: add the key, or --shard with --hash")
	}
	policy, err := node.Policy(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, policy.Quarantined)
	}
	if len(policy.Quarantined) == 0 {
		_, err = fmt.Fprintln(session.out, "no key is in quarantine")
		return err
	}
	hasServices := slices.ContainsFunc(policy.Quarantined, func(key api.QuarantinedKey) bool { return key.Service != "" })
	table := newTable(session.out, withService(hasServices, "SERVICE", "SHARD", "KEY-HASH", "FOR", "STATE", "REASON")...)
	for _, key := range policy.Quarantined {
		state := "refused"
		if !key.Known {
			state = "not refused: the secret has changed since"
		}
		table.row(withService[any](hasServices, key.Service, shardNumber(key.Shard, key.ServiceShard), key.Hash, key.For, state, reasonOf(policy, api.PolicyReason{Action: "quarantine", Shard: &key.Shard, Hash: key.Hash}))...)
	}
	return table.flush()
}
