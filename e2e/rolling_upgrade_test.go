//go:build linux

package e2e_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/nextversion"
)

// later is the program of a later version with one more format version.
var later = sync.OnceValues(func() (string, error) {
	dir, err := build.Dir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "later")
	if err = os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	list, err := nextversion.Overlay("..", dir)
	if err != nil {
		return "", err
	}
	b, err := cluster.Build(context.Background(), dir, "-overlay="+list)
	return b.Node, err
})

// TestLaterVersionCanBeRolledBackUntilFinalized upgrades nodes one after the other under
// load, rolls back, and upgrades all. Then the format version is finalized, and the old
// program is refused with an error that contains both numbers. No request fails and no
// write is lost.
func TestLaterVersionCanBeRolledBackUntilFinalized(t *testing.T) {
	t.Parallel() // it waits for drains and elections most of the time
	next, err := later()
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, 3)
	nodes := c.Nodes()
	traffic := c.Load(t, c.Running(), cluster.Traffic{Rate: 400})
	roll := func(binary string, which ...*cluster.Node) {
		t.Helper()
		for _, node := range which {
			node.Stop(t)
			node.Binary = binary
			node.Start(t)
			c.AwaitServing(t)
			traffic.AwaitStarted(t, 2*shards)
		}
	}
	raise := func() error { return nodes[0].TryAction(t.Context(), "upgrade", url.Values{"finalize": {"true"}}) }

	roll(next, nodes[0], nodes[1])
	if err := raise(); err == nil || !strings.Contains(err.Error(), "c, which supports format version 4: run the version of the other nodes there") {
		t.Errorf("format version raised although node c supports only an older one: %v", err)
	}
	nodes[2].AwaitStatus(t, "it warns of c", func(status cluster.Status) bool {
		return strings.Contains(status.FindingsText(), "upgrade-pending: format version 4 is in force, and format version 5 is blocked by c")
	})
	roll("", nodes[0], nodes[1])
	roll(next, nodes...)
	for _, node := range nodes {
		node.AwaitStatus(t, "format version 4 is in force", func(status cluster.Status) bool { return status.FormatVersion == 4 })
	}

	cluster.Await(t, "the upgrade is finalized", raise)
	for _, node := range nodes {
		node.AwaitStatus(t, "format version 5 is in force", func(status cluster.Status) bool { return status.FormatVersion == nextversion.Level })
	}
	traffic.AwaitStarted(t, 2*shards)
	node := c.Follower(t)
	traffic.SetTargets(c.Others(node)) // the old program has its port for a moment
	node.Stop(t)
	c.AwaitServing(t)
	node.Binary = ""
	wantStartupError(t, node.Args()[2:], node.DataDir, "format version 5, and this program supports format versions 2 to 4", "run the version of the other nodes")
	fresh := withFlags(newNodeArgs(t, c), "--join", c.Running()[0].Gossip, "--shards", strconv.Itoa(shards))
	wantStartupError(t, fresh, "format version 5 is in force", "this program supports format version 4", "run the version of the other nodes")
	node.Binary = next
	node.Start(t)
	c.AwaitServing(t)
	traffic.SetTargets(nodes)
	c.Leader(t).PerformAction(t, "step-down", nil)
	c.AwaitServing(t)
	traffic.AwaitStarted(t, 2*shards)
	traffic.Finish(t)
}
