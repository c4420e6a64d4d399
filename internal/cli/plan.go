package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"shardway/admin/api"
)

type planCommand struct {
	serviceFilterFlag
	target
}

// Help describes when the cluster rebalances shards.
func (c *planCommand) Help() string {
	return `The cluster rebalances shards automatically when nodes join or leave, and when an
operator asks for a drain, a weight or a pin. While moves are paused, the plan also
shows the moves that wait.`
}

// Run shows the moves of the next map.
func (c *planCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	plan, err := client.Plan(ctx)
	if err != nil {
		return err
	}
	filters, err := filtersService(ctx, client, c.Service)
	if err != nil {
		return err
	}
	if filters {
		isOther := func(moves api.PlannedMoves) bool { return moves.Service != c.Service }
		plan.Moves, plan.Resumed = slices.DeleteFunc(plan.Moves, isOther), slices.DeleteFunc(plan.Resumed, isOther)
	}
	if c.JSON {
		return writeJSON(session.out, plan)
	}
	return writePlan(session.out, plan)
}

// writePlan prints the moves of the next map, the moves that wait for the end of a pause, and the nodes
// that are held back.
func writePlan(w io.Writer, plan api.Plan) error {
	if err := writeMoves(w, fmt.Sprintf("the map after epoch %d moves", plan.Epoch), plan.Moves); err != nil {
		return err
	}
	if plan.Pause != "" {
		if err := writeMoves(w, "\nplanned moves are paused for "+plan.Pause+"; without that it would move", plan.Resumed); err != nil {
			return err
		}
	}
	return writeHeldBack(w, plan.HeldBack)
}

// writeHeldBack shows the nodes that get fewer shards because their apps have not restarted.
func writeHeldBack(w io.Writer, nodes []api.HeldBackNode) error {
	if len(nodes) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w, "\nnodes that get fewer shards until their app restarts, because it had the shards before (or run: shardway app-restarted NODE)"); err != nil {
		return err
	}
	table := newTable(w, "NODE", "FEWER SHARDS")
	for _, node := range nodes {
		table.row(node.Node, node.Shards)
	}
	return table.flush()
}

// writeMoves prints the heading with the number of moved shards, and one row for each pair of owners.
func writeMoves(w io.Writer, heading string, moves []api.PlannedMoves) error {
	shardCount := 0
	for _, move := range moves {
		shardCount += len(move.Shards)
	}
	if shardCount == 0 {
		_, err := fmt.Fprintf(w, "%s nothing\n", heading)
		return err
	}
	if _, err := fmt.Fprintf(w, "%s %s\n", heading, pluralize(shardCount, "shard")); err != nil {
		return err
	}
	hasServices := slices.ContainsFunc(moves, func(move api.PlannedMoves) bool { return move.Service != "" })
	table := newTable(w, withService(hasServices, "SERVICE", "FROM", "TO", "SHARDS", "WHY", "STATE")...)
	for _, move := range moves {
		state := "planned"
		if move.Proposed {
			state = "proposed"
		}
		from, to := ownerName(move.From, move.FromInstance), ownerName(move.To, move.ToInstance)
		table.row(withService[any](hasServices, move.Service, cmp.Or(from, "orphaned"), cmp.Or(to, "orphaned"), len(move.Shards), move.Why, state)...)
	}
	return table.flush()
}
