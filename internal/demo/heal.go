package demo

import (
	"context"
	"time"

	"shardway/admin/api"
	"shardway/admin/client"
)

// healing returns what waits until no shard has p's node as its owner any more,
// as the first of the other running nodes sees it.
func (f *fleet) healing(p *proc) func(ctx context.Context) error {
	var others []*client.Client
	for i, n := range f.nodes {
		if n == p || !n.running() {
			continue
		}
		c, err := client.New(addr(f.layout.nodes[i].admin))
		if err == nil {
			others = append(others, c)
		}
	}
	return func(ctx context.Context) error {
		for i := 0; ; i++ {
			if len(others) == 0 {
				<-ctx.Done()
				return ctx.Err()
			}
			c := others[i%len(others)]
			err := withoutOwner(ctx, c, p.node)
			c.Close()
			if err == nil || ctx.Err() != nil {
				return err
			}
			// That one died too, or is stopping: ask another, not at once.
			select {
			case <-time.After(probeEvery):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// withoutOwner returns nil once a node's committed map has every shard with
// somebody else than the given node.
func withoutOwner(ctx context.Context, c *client.Client, node string) error {
	m, err := c.Map(ctx)
	for ; err == nil; m, err = c.MapAfter(ctx, m.Epoch, 30*time.Second) {
		if !owns(m, node) {
			return nil
		}
	}
	return err
}

func owns(m api.Map, node string) bool {
	for _, i := range m.Owners {
		if i >= 0 && i < len(m.Nodes) && m.Nodes[i].ID == node {
			return true
		}
	}
	return false
}
