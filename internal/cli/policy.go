package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"shardway/admin/api"
	"shardway/admin/client"
	"shardway/config"
)

type policyCommand struct {
	Show policyShowCommand `cmd:"" default:"withargs" help:"Show drains, cordons, marks, weights, pins and the role."`
	Role policyRoleCommand `cmd:"" help:"Restrict shards to nodes with a role, or end this."`
}

type policyRoleCommand struct {
	Name   string `arg:"" optional:"" help:"Role of the nodes that get shards."`
	Remove bool   `help:"End the restriction."`
	reasonFlag
	target
}

// Help describes the restriction.
func (c *policyRoleCommand) Help() string {
	return `Shards move from nodes without the role to nodes with it, as in any planned move.
Nodes without the role still forward requests and vote. The roles of a node are those
of its flag --role, and "shardway nodes" shows them.

The leader refuses the command if no node with the role can get shards. If there is no
such node later, each shard stays with its owner, and the shards of a node that fails
go to the other nodes. The finding role-missing reports this.`
}

// Run restricts shards to nodes with a role, or ends this.
func (c *policyRoleCommand) Run(ctx context.Context, session *session) error {
	if (c.Name == "") != c.Remove {
		return usageError("policy role takes either a role or --remove, as in: shardway policy role app; shardway policy role --remove")
	}
	if c.Remove {
		return c.runAction(ctx, session, api.Action{Verb: api.ClearRole, Reason: c.Reason}, "nodes can own shards regardless of their roles")
	}
	return c.runAction(ctx, session, api.Action{Verb: api.SetRole, Role: c.Name, Reason: c.Reason}, "only nodes with the role "+c.Name+" get shards; `shardway policy role --remove` ends that")
}

type policyShowCommand struct{ target }

// Run prints the policy.
func (c *policyShowCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	policy, err := client.Policy(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, policy)
	}
	return writePolicy(session.out, policy)
}

// policyRows is a table with one row for each operator action that is in force.
type policyRows struct {
	table  *table
	policy api.Policy
	count  int
}

// add adds a row. entry identifies the action in Policy.Reasons, without its reason.
func (rows *policyRows) add(action, object string, entry api.PolicyReason) {
	rows.table.row(action, object, reasonOf(rows.policy, entry))
	rows.count++
}

// reasonOf returns the reason that an operator gave for the action that entry identifies, or "".
func reasonOf(policy api.Policy, entry api.PolicyReason) string {
	for _, reason := range policy.Reasons {
		isSameShard := entry.Shard == nil || reason.Shard != nil && *reason.Shard == *entry.Shard
		if reason.Action == entry.Action && reason.Node == entry.Node && reason.Hash == entry.Hash && isSameShard {
			return reason.Reason
		}
	}
	return ""
}

// writePolicy prints one row for each operator action that is in force.
func writePolicy(w io.Writer, policy api.Policy) error {
	rows := policyRows{table: newTable(w, "REQUEST", "TARGET", "REASON"), policy: policy}
	for _, node := range policy.Drained {
		rows.add("drain", node, api.PolicyReason{Action: "drain", Node: node})
	}
	for _, drain := range policy.GradualDrains {
		rows.add("drain idle-first "+drain.IdleFirst, drain.Node, api.PolicyReason{Action: "drain", Node: drain.Node})
	}
	for _, node := range policy.Cordoned {
		rows.add("cordon", node, api.PolicyReason{Action: "cordon", Node: node})
	}
	for _, node := range policy.MarkedFailed {
		rows.add("mark-failed", node, api.PolicyReason{Action: "mark-failed", Node: node})
	}
	for _, node := range slices.Sorted(maps.Keys(policy.Weights)) {
		rows.add("weight "+strconv.FormatUint(uint64(policy.Weights[node]), 10), node, api.PolicyReason{Action: "weight", Node: node})
	}
	for _, pin := range policy.Pins {
		owner := strings.Join(append([]string{pin.Node}, pin.Fallbacks...), ", then ")
		if pin.Zone != "" {
			owner = zonePrefix + pin.Zone
		}
		rows.add("pin "+describeShard(pin.Shard, pin.Service, pin.ServiceShard), owner, api.PolicyReason{Action: "pin", Shard: &pin.Shard})
	}
	for _, key := range policy.Quarantined {
		rows.add("quarantine", fmt.Sprintf("key_hash %s of %s", key.Hash, describeShard(key.Shard, key.Service, key.ServiceShard)), api.PolicyReason{Action: "quarantine", Shard: &key.Shard, Hash: key.Hash})
	}
	if policy.Role != "" {
		rows.add("role "+policy.Role, "all shards", api.PolicyReason{Action: "set-role"})
	}
	if policy.Pause != "" {
		rows.add("pause for "+policy.Pause, "all planned moves", api.PolicyReason{Action: "pause"})
	}
	if rows.count == 0 {
		_, err := fmt.Fprintln(w, "no operator action is in force: shards are spread evenly, by weight")
		return err
	}
	return rows.table.flush()
}

type cordonCommand struct {
	Node       string `arg:"" optional:"" help:"Id of the node."`
	AppVersion string `help:"Cordon all present nodes with this --app-version, instead of one node." placeholder:"TEXT"`
	reasonFlag
	target
}

// Run cordons a node, or the nodes of an app version.
func (c *cordonCommand) Run(ctx context.Context, session *session) error {
	hasNode, hasVersion := c.Node != "", c.AppVersion != ""
	if hasNode == hasVersion {
		return usageError("cordon takes a node or --app-version TEXT; `shardway nodes` shows both")
	}
	if hasNode {
		return c.runAction(ctx, session, api.Action{Verb: api.Cordon, Node: c.Node, Reason: c.Reason}, cordoned(c.Node))
	}
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.Nodes(ctx)
	if err != nil {
		return err
	}
	results := []actionResult{}
	for _, node := range list.Nodes {
		if node.AppVersion != c.AppVersion || node.State == "left" {
			continue
		}
		if _, err = client.Do(ctx, api.Action{Verb: api.Cordon, Node: node.ID, Reason: c.Reason}); err != nil {
			return fmt.Errorf("node %s: %w", node.ID, err)
		}
		results = append(results, actionResult{Action: api.Cordon, Node: node.ID, Done: true})
	}
	if len(results) == 0 {
		return fmt.Errorf("no node has the app version %q: `shardway nodes` shows what they have", c.AppVersion)
	}
	if c.JSON {
		return writeJSON(session.out, results)
	}
	for _, result := range results {
		if _, err = fmt.Fprintln(session.out, cordoned(result.Node)); err != nil {
			return err
		}
	}
	return nil
}

// cordoned returns the message that a node is cordoned.
func cordoned(node string) string {
	return "node " + node + " gets no shards that it does not have, until it is uncordoned"
}

type markFailedCommand struct {
	Node string `arg:"" help:"Id of the node."`
	reasonFlag
	target
}

// Help explains when the shards of the node move, and how the node returns.
func (c *markFailedCommand) Help() string {
	return `The shard map excludes the node as if it had failed, also while it runs. Other nodes get its
shards when it has acknowledged the new map, or when its lease has certainly ended. If the
node does not respond, that takes up to dead-after. The node stays in the cluster and keeps
its vote. For a node that works, use drain, which lets its requests finish.

The exclusion lasts until you run uncordon, also after a restart of all nodes. The leader
refuses to uncordon a node of the cluster while it receives no heartbeats from it. The leader
refuses to mark the last node that can own shards.

If you repeat the command without --reason, the previous reason is deleted.`
}

// Run marks a node as failed.
func (c *markFailedCommand) Run(ctx context.Context, session *session) error {
	action := api.Action{Verb: api.MarkFailed, Node: c.Node, Reason: c.Reason}
	return c.runAction(ctx, session, action, "node "+c.Node+" is excluded until `shardway uncordon "+c.Node+"`; `shardway nodes` shows its shards")
}

type uncordonCommand struct {
	Node string `arg:"" help:"Id of the node, or NODE/INSTANCE for one app instance."`
	reasonFlag
	target
}

// Run ends a drain, a cordon or a mark as failed.
func (c *uncordonCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	before, err := client.Policy(ctx)
	if err != nil {
		return err
	}
	list, err := client.Nodes(ctx)
	if err != nil {
		return err
	}
	isDraining := slices.ContainsFunc(list.Nodes, func(node api.Node) bool { return node.ID == c.Node && node.State == "draining" })
	return c.runAction(ctx, session, api.Action{Verb: api.Uncordon, Node: c.Node, Reason: c.Reason}, uncordoned(c.Node, before, isDraining))
}

// uncordoned returns what an uncordon has ended, by the policy that was in force before it.
// isDraining reports that the node drains, by that policy or by itself.
func uncordoned(node string, before api.Policy, isDraining bool) string {
	isDrainedGradually := slices.ContainsFunc(before.GradualDrains, func(drain api.GradualDrain) bool { return drain.Node == node })
	isDrained := isDrainedGradually || slices.Contains(before.Drained, node)
	isCordoned := slices.Contains(before.Cordoned, node)
	switch {
	case slices.Contains(before.MarkedFailed, node):
		return describeOwner(node) + " can own shards again: it is no longer marked as failed"
	case isDrained && isCordoned:
		return describeOwner(node) + " can own shards again: its drain and its cordon have ended"
	case isDrained:
		return describeOwner(node) + " can own shards again: its drain has ended"
	case isCordoned:
		return describeOwner(node) + " gets shards again: its cordon has ended"
	case isDraining:
		return "nothing to do: node " + node + " drains by drain --local or because it stops, and owns shards again when its process has restarted"
	}
	return "nothing to do: node " + node + " is not drained, cordoned or marked as failed"
}

type pauseCommand struct {
	For string `required:"" help:"Duration, up to 168h; an election restarts it." placeholder:"DURATION"`
	reasonFlag
	target
}

// Run pauses planned moves.
func (c *pauseCommand) Run(ctx context.Context, session *session) error {
	return c.runAction(ctx, session, api.Action{Verb: api.Pause, For: c.For, Reason: c.Reason}, "for "+c.For+" only shards whose node is gone are moved; `shardway resume` ends that")
}

type resumeCommand struct {
	reasonFlag
	target
}

// Run ends a pause.
func (c *resumeCommand) Run(ctx context.Context, session *session) error {
	return c.runAction(ctx, session, api.Action{Verb: api.Resume, Reason: c.Reason}, "planned moves go on")
}

type weightCommand struct {
	Node   string `arg:"" help:"Id of the node."`
	Weight string `arg:"" help:"Weight relative to other nodes, 1 to 1000; 0 restores the configured weight."`
	reasonFlag
	target
}

// Run sets a node's weight.
func (c *weightCommand) Run(ctx context.Context, session *session) error {
	weight, err := strconv.ParseUint(c.Weight, 10, 32)
	if err != nil { // the node refuses a weight that is too large
		return usageError(fmt.Sprintf("weight %s of node %s is not valid: give a number from 1 to %d, or 0 for the weight that the node was started with", c.Weight, c.Node, config.MaxWeight))
	}
	success := fmt.Sprintf("node %s has weight %d", c.Node, weight)
	if weight == 0 {
		success = "node " + c.Node + " has the weight that it was started with"
	}
	return c.runAction(ctx, session, api.Action{Verb: api.Weigh, Node: c.Node, Weight: uint32(weight), Reason: c.Reason}, success)
}

// zonePrefix marks a zone in the arguments of pin.
const zonePrefix = "zone="

type pinCommand struct {
	Args []string `arg:"" name:"shard> <node|zone=zone" help:"Number of the shard, unless --key is set, and the nodes or the zone."`
	Key  *string  `help:"Use the shard of this key." placeholder:"KEY"`
	serviceFlag
	reasonFlag
	target
}

// Help explains lists of nodes, and nodes that cannot own shards.
func (c *pinCommand) Help() string {
	return `The shard belongs to the node of its pin as long as the node can own shards. With several
nodes, in order of preference and up to 8, it belongs to the first of them that can own it:
shardway pin 7 n3 n1. If none of them can, the shard is placed as if it had no pin. When a
node that comes first returns, the shard moves back to it. If the first node cannot own
shards now, the command prints a warning, and the pin waits for the node.`
}

// Run pins a shard to nodes or a zone.
func (c *pinCommand) Run(ctx context.Context, session *session) error {
	action := api.Action{Verb: api.Pin, Service: c.Service, Reason: c.Reason}
	args, err := c.shardOf(ctx, session, c.Key, c.Args, &action)
	if err != nil {
		return err
	}
	isZone := func(arg string) bool { return strings.HasPrefix(arg, zonePrefix) }
	if len(args) == 0 || len(args) > 1 && slices.ContainsFunc(args, isZone) {
		return usageError("give a shard, and nodes or one zone, as in: shardway pin 7 n3; shardway pin 7 n3 n1; shardway pin --key alice zone=east")
	}
	if slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, ",") }) {
		return usageError("separate nodes with spaces, as in: shardway pin 7 n3 n1")
	}
	if isZone(args[0]) {
		action.Zone = strings.TrimPrefix(args[0], zonePrefix)
	} else {
		action.Node, action.Fallbacks = args[0], args[1:]
	}
	return c.runActionOf(ctx, session, action, func(done api.Action) string {
		return describeShard(done.Shard, done.Service, nil) + " is pinned to " + strings.Join(args, ", then ")
	})
}

type unpinCommand struct {
	Args []string `arg:"" optional:"" name:"shard" help:"Number of the shard, unless --key is set."`
	Key  *string  `help:"Use the shard of this key." placeholder:"KEY"`
	serviceFlag
	reasonFlag
	target
}

// Run removes the pin of a shard.
func (c *unpinCommand) Run(ctx context.Context, session *session) error {
	action := api.Action{Verb: api.Unpin, Service: c.Service, Reason: c.Reason}
	args, err := c.shardOf(ctx, session, c.Key, c.Args, &action)
	if err != nil {
		return err
	}
	if len(args) != 0 {
		return usageError("give a shard, as in: shardway unpin 7; shardway unpin --key alice")
	}
	return c.runActionOf(ctx, session, action, func(done api.Action) string {
		return describeShard(done.Shard, done.Service, nil) + " is not pinned any more"
	})
}

// shardOf sets the shard of an action from its number or from a key. It returns the remaining
// arguments.
func (t *target) shardOf(ctx context.Context, session *session, key *string, args []string, action *api.Action) ([]string, error) {
	if key == nil {
		if len(args) == 0 {
			return nil, usageError("give the number of a shard, or --key KEY")
		}
		number, err := strconv.ParseUint(args[0], 10, 32)
		if err != nil {
			return nil, usageError(fmt.Sprintf("%q is not a shard number: give a number such as 7, or use --key KEY", args[0]))
		}
		action.Shard = uint32(number)
		return args[1:], nil
	}
	node, err := t.client(session)
	if err != nil {
		return nil, err
	}
	defer node.Close()
	location, err := node.LocateIn(ctx, client.LocateQuery{Key: *key, Service: action.Service})
	action.Service, action.Shard = location.Service, shardNumber(location.Shard, location.ServiceShard)
	return args, err
}
