package demo

import (
	"context"
	"time"

	"shardway/admin/api"
	"shardway/admin/client"
)

// failoverWaiter returns a function that waits until the node of p owns no shard. The function queries
// the other running nodes, one at a time.
func (f *fleet) failoverWaiter(p *proc) func(ctx context.Context) error {
	var survivors []*client.Client
	for i, n := range f.nodes {
		if n == p || !n.isRunning() {
			continue
		}
		c, err := client.New(addr(f.layout.nodes[i].admin))
		if err == nil {
			survivors = append(survivors, c)
		}
	}
	return func(ctx context.Context) error {
		for i := 0; ; i++ {
			if len(survivors) == 0 {
				<-ctx.Done()
				return ctx.Err()
			}
			c := survivors[i%len(survivors)]
			err := waitNotOwner(ctx, c, p.node)
			c.Close()
			if err == nil || ctx.Err() != nil {
				return err
			}
			// This node has exited or is stopping, so query another one after a delay.
			select {
			case <-time.After(probeInterval):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// mapPollTimeout is the duration of one long poll for the next map.
const mapPollTimeout = 30 * time.Second

// waitNotOwner returns nil once node owns no shard in the committed map.
func waitNotOwner(ctx context.Context, admin *client.Client, node string) error {
	current, err := admin.Map(ctx)
	for ; err == nil; current, err = admin.MapAfter(ctx, current.Epoch, mapPollTimeout) {
		if !owns(current, node) {
			return nil
		}
	}
	return err
}

func owns(current api.Map, node string) bool {
	for _, i := range current.Owners {
		if i >= 0 && i < len(current.Nodes) && current.Nodes[i].ID == node {
			return true
		}
	}
	return false
}
