//go:build linux

package cluster

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"shardway/e2e/kit/history"
)

// Place is the app instance that owns a shard.
type Place struct {
	Node string
	// Instance is the number of the instance, which starts at 1. It is zero if the shard has no owner.
	Instance int
}

// Places returns the owner of each shard, and whether any shard moves or has no owner.
func (n *Node) Places(ctx context.Context) (places []Place, moving bool, err error) {
	var list struct {
		Shards []struct {
			State    string `json:"state"`
			Owner    string `json:"owner"`
			Instance int    `json:"instance"`
		} `json:"shards"`
	}
	if err = n.getAdmin(ctx, "/v1/shards", &list); err != nil {
		return nil, false, err
	}
	for _, shard := range list.Shards {
		place := Place{Node: shard.Owner, Instance: shard.Instance}
		if place.Node != "" && place.Instance == 0 {
			place.Instance = 1 // the list has no instances while each node uses only its first one
		}
		places = append(places, place)
		moving = moving || shard.State != "owned"
	}
	return places, moving, nil
}

// AddInstance starts a further app behind a node that has not started yet. Its name is
// NODE/INSTANCE, also in runs, faults and maps of the history.
func (n *Node) AddInstance(tb testing.TB) *App {
	tb.Helper()
	if n.Running() {
		tb.Fatalf("node %s runs already", n.ID)
	}
	if len(n.Instances) == 0 {
		n.Instances = []*App{n.App}
	}
	app := n.cluster.newApp(tb, n)
	app.Start(tb)
	n.Instances = append(n.Instances, app)
	n.flags = append(n.flags, "--upstream", "http://"+app.Addr)
	return app
}

// newApp returns the next app of a node with several apps. It does not start the app.
func (c *Cluster) newApp(tb testing.TB, node *Node) *App {
	tb.Helper()
	name := node.ID + "/" + strconv.Itoa(len(node.Instances)+1)
	return &App{cluster: c, name: name, location: node.location, Addr: node.location.controlAddr(c.port(tb))}
}

// apps returns all apps of the node.
func (n *Node) apps() []*App {
	if len(n.Instances) > 0 {
		return n.Instances
	}
	return []*App{n.App}
}

// Runs returns all runs that the app has recorded.
func (a *App) Runs(tb testing.TB) []history.Run {
	tb.Helper()
	runs, err := a.runs()
	if err != nil {
		tb.Fatal(err)
	}
	return runs
}

// Name returns the name of the app.
func (a *App) Name() string { return a.name }

// Responses returns all responses that clients have received so far.
func (c *Cluster) Responses() []history.Response { return slices.Clone(c.responses) }
