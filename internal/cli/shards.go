package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"shardway/admin"
)

type shardsCommand struct {
	Node string `help:"Only the shards that this node has or is to get." placeholder:"ID"`
	target
}

// Run lists the shards, for people in runs that have everything in common.
func (c *shardsCommand) Run(ctx context.Context, s *session) error {
	client, err := c.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.Shards(ctx, c.Node)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, list)
	}
	return writeShards(s.out, list.Shards)
}

func writeShards(w io.Writer, shards []admin.Shard) error {
	t := newTable(w, "SHARDS", "COUNT", "STATE", "OWNER", "EPOCH", "TO")
	for first := 0; first < len(shards); {
		end := first + 1
		for end < len(shards) && follows(shards[end-1], shards[end]) {
			end++
		}
		a, b := shards[first], shards[end-1]
		name := strconv.FormatUint(uint64(a.Shard), 10)
		if end-first > 1 {
			name = fmt.Sprintf("%d-%d", a.Shard, b.Shard)
		}
		t.row(name, end-first, a.State, a.Owner, a.Epoch, a.To)
		first = end
	}
	return t.flush()
}

// follows reports whether b is the shard after a and like it in all else.
func follows(a, b admin.Shard) bool {
	a.Shard++
	return a == b
}
