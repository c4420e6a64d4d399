package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"shardway/admin/api"
	"shardway/admin/client"
)

type shardsCommand struct {
	Shard string `arg:"" optional:"" help:"Number of a shard: show its owners and why it moved."`
	Node  string `help:"Only the shards that this node, or app instance NODE/INSTANCE, owns or is about to own." placeholder:"ID"`
	serviceFilterFlag
	target
}

// Run prints the shards, grouped by their properties, or the history of one shard.
func (c *shardsCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	if c.Shard != "" {
		return c.history(ctx, session, client)
	}
	var list api.ShardList
	if c.Service == "" {
		list, err = client.Shards(ctx, c.Node)
	} else {
		list, err = client.ServiceShards(ctx, c.Service, c.Node)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, list)
	}
	return writeShards(session.out, list.Shards)
}

// history prints the owner and the moves of one shard.
func (c *shardsCommand) history(ctx context.Context, session *session, client *client.Client) error {
	number, err := strconv.ParseUint(c.Shard, 10, 32)
	if err != nil {
		return usageError(fmt.Sprintf("%q is not a shard number: give a number such as 7; `shardway locate KEY` prints the shard of a key", c.Shard))
	}
	if c.Node != "" {
		return usageError("give the number of a shard, or --node, not both")
	}
	history, err := client.ServiceShard(ctx, c.Service, uint32(number))
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, history)
	}
	if err = writeShardState(session.out, history.Shard); err != nil {
		return err
	}
	return writeHistory(session.out, history.Moves)
}

// writeShardState prints the owner and the state of one shard, with explanations.
func writeShardState(w io.Writer, shard api.Shard) error {
	hasServices := shard.Service != ""
	table := newTable(w, withService(hasServices, "SERVICE", "SHARD", "OWNER", "STATE", "TO", "EPOCH", "PREVIOUS", "RELEASED")...)
	released := ""
	if shard.Released {
		released = "yes"
	}
	owner, target, previous := ownerName(shard.Owner, shard.Instance), ownerName(shard.To, shard.ToInstance), ownerName(shard.Previous, shard.PreviousInstance)
	table.row(withService[any](hasServices, shard.Service, shardNumber(shard.Shard, shard.ServiceShard), owner, displayState(shard), target, shard.Epoch, previous, released)...)
	if err := table.flush(); err != nil {
		return err
	}
	text := "\n"
	if shard.Unavailable != "" {
		text += "unavailable: " + strings.Map(printable, shard.Unavailable) + "\n"
	}
	if shard.StaleReturn {
		text += explainStaleReturn(owner) + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// writeHistory prints the moves of one shard.
func writeHistory(w io.Writer, moves []api.Move) error {
	if len(moves) == 0 {
		_, err := fmt.Fprintln(w, "the node has no record of a move")
		return err
	}
	table := newTable(w, "EPOCH", "FROM", "TO", "REASON")
	for _, move := range moves {
		table.row(move.Epoch, ownerName(move.From, move.FromInstance), ownerName(move.To, move.ToInstance), move.Reason)
	}
	return table.flush()
}

// maxRangesBytes limits the length of a list of shards in text output. The JSON output is complete.
const maxRangesBytes = 48

// group contains the common properties of the shards in one row.
type group struct {
	service           string // empty without services
	state, owner      string // owner is NODE/INSTANCE if a node has several app instances
	ownerNode         string
	ownerInstance     int
	target            string // owner to which the shards move; empty means that they stay
	unavailableReason string // why the owner does not serve the shards; empty means that it does
	epoch             uint64
}

// displayState returns the state for tables. It differs from the state of the API for an owned shard
// that its owner does not serve, or whose app may have a stale copy.
func displayState(shard api.Shard) string {
	switch {
	case shard.State != api.ShardOwned:
		return shard.State
	case shard.Unavailable != "":
		return "unavailable"
	case shard.StaleReturn:
		return "stale-return"
	}
	return shard.State
}

// explainStaleReturn returns the meaning of the state stale-return, and the remedy.
func explainStaleReturn(owner string) string {
	return fmt.Sprintf("stale-return: the app of node %s had the shard before and has not restarted: restart that app, or run: shardway app-restarted %s", owner, owner)
}

// writeShards prints one row for all shards with the same properties, and then explanations.
func writeShards(w io.Writer, shards []api.Shard) error {
	shardsByGroup := make(map[group][]uint32)
	for _, shard := range shards {
		g := group{service: shard.Service, state: displayState(shard), owner: ownerName(shard.Owner, shard.Instance), ownerNode: shard.Owner, ownerInstance: shard.Instance, target: ownerName(shard.To, shard.ToInstance), epoch: shard.Epoch, unavailableReason: shard.Unavailable}
		shardsByGroup[g] = append(shardsByGroup[g], shardNumber(shard.Shard, shard.ServiceShard))
	}
	groups := slices.SortedFunc(maps.Keys(shardsByGroup), compareGroups)
	hasServices := slices.ContainsFunc(groups, func(g group) bool { return g.service != "" })
	table := newTable(w, withService(hasServices, "SERVICE", "OWNER", "STATE", "TO", "EPOCH", "COUNT", "SHARDS")...)
	for _, g := range groups {
		table.row(withService[any](hasServices, g.service, g.owner, g.state, g.target, g.epoch, len(shardsByGroup[g]), formatRanges(shardsByGroup[g]))...)
	}
	if err := table.flush(); err != nil {
		return err
	}
	for _, line := range explanations(groups) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// explanations returns the reasons why owners do not serve, followed by explanations of stale returns,
// without duplicates.
func explanations(groups []group) (lines []string) {
	add := func(line string) {
		line = strings.TrimSpace(sanitize(line))
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, g := range groups {
		if g.unavailableReason != "" && g.ownerNode != "" {
			add(g.ownerNode + " does not serve: " + g.unavailableReason)
		}
	}
	for _, g := range groups {
		if g.state == "stale-return" {
			add(explainStaleReturn(g.owner))
		}
	}
	return lines
}

// compareGroups defines the order of the rows.
func compareGroups(a, b group) int {
	return cmp.Or(
		cmp.Compare(a.service, b.service),
		cmp.Compare(a.ownerNode, b.ownerNode),
		cmp.Compare(a.ownerInstance, b.ownerInstance),
		cmp.Compare(a.state, b.state),
		cmp.Compare(a.target, b.target),
		cmp.Compare(a.epoch, b.epoch),
		cmp.Compare(a.unavailableReason, b.unavailableReason),
	)
}

// formatRanges formats sorted numbers as ranges, such as 0-3,7,9-12. It truncates a list that is longer
// than maxRangesBytes.
func formatRanges[N uint16 | uint32](numbers []N) string {
	var text strings.Builder
	for first := 0; first < len(numbers); {
		end := first + 1
		for end < len(numbers) && numbers[end] == numbers[end-1]+1 {
			end++
		}
		if text.Len() > 0 {
			text.WriteByte(',')
		}
		if text.Len() > maxRangesBytes {
			text.WriteString("...")
			break
		}
		fmt.Fprint(&text, numbers[first])
		if end-first > 1 {
			fmt.Fprint(&text, "-", numbers[end-1])
		}
		first = end
	}
	return text.String()
}

type locateCommand struct {
	Key  string `arg:"" help:"The key, as in requests."`
	Host string `help:"Use the service of requests with this host, instead of --service." placeholder:"HOST"`
	Path string `help:"Use the service of requests with this path, instead of --service." placeholder:"PATH"`
	serviceFlag
	target
}

// Run prints the shard and the owner of a key.
func (c *locateCommand) Run(ctx context.Context, session *session) error {
	if c.Service != "" && (c.Host != "" || c.Path != "") {
		return usageError("--service and --host or --path exclude each other: omit one of them")
	}
	node, err := c.client(session)
	if err != nil {
		return err
	}
	defer node.Close()
	location, err := node.LocateIn(ctx, client.LocateQuery{Key: c.Key, Service: c.Service, Host: c.Host, Path: c.Path})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, location)
	}
	hasServices := location.Service != ""
	table := newTable(session.out, withService(hasServices, "SERVICE", "KEY", "SHARD", "OWNER", "ENDPOINT", "EPOCH")...)
	table.row(withService[any](hasServices, location.Service, location.Key, shardNumber(location.Shard, location.ServiceShard), ownerName(location.Owner, location.Instance), location.Endpoint, location.Epoch)...)
	if err = table.flush(); err != nil {
		return err
	}
	if err = writeStandbys(session.out, &location); err != nil {
		return err
	}
	if location.Unavailable != "" {
		if _, err = fmt.Fprintf(session.out, "\nunavailable: %s\n", strings.Map(printable, location.Unavailable)); err != nil {
			return err
		}
	}
	if location.StaleReturn {
		_, err = fmt.Fprintf(session.out, "\n%s\n", sanitize(explainStaleReturn(ownerName(location.Owner, location.Instance))))
	}
	return err
}

// writeStandbys prints the standbys of a shard, and why the other nodes are not among them.
func writeStandbys(out io.Writer, location *api.Location) error {
	if len(location.Standbys)+len(location.NotStandbys) == 0 {
		return nil
	}
	table := newTable(out, "NODE", "STANDBY", "ENDPOINT")
	for i, node := range location.Standbys {
		table.row(node.ID, i+1, node.HTTP)
	}
	for _, node := range location.NotStandbys {
		table.row(node.Node, "no: "+node.Reason, "")
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	return table.flush()
}
