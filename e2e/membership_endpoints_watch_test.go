//go:build linux

package e2e_test

import (
	"bufio"
	"encoding/json"
	"maps"
	"os/exec"
	"slices"
	"testing"

	"shardway/admin/api"
	"shardway/e2e/kit/cluster"
)

// TestWatchOfEndpointsFollowsMembers runs endpoints --watch on one node, while another node is killed and starts again.
// The node that the command asks restarts, too. Each list has the addresses of the nodes that are present.
func TestWatchOfEndpointsFollowsMembers(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := start(t, 3)
	asked, other := c.Nodes()[0], c.Nodes()[2]
	watch := exec.CommandContext(t.Context(), binaries(t).Node, "endpoints", "--watch", "--json", "--name", "http", "--admin", asked.Admin)
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	lists := bufio.NewScanner(out)
	awaitAddresses := func(nodes ...*cluster.Node) {
		t.Helper()
		want := map[string]string{}
		for _, node := range nodes {
			want[node.ID] = node.Addr
		}
		for lists.Scan() {
			var list api.EndpointList
			if err := json.Unmarshal(lists.Bytes(), &list); err != nil {
				t.Fatalf("%s: %v", lists.Bytes(), err)
			}
			got := map[string]string{}
			for _, endpoint := range list.Endpoints {
				got[endpoint.Node] = endpoint.Addr
			}
			if maps.Equal(got, want) {
				return
			}
			t.Logf("the addresses are %v, until they are %v", got, want)
		}
		t.Fatalf("the command has ended before its list had %v", slices.Sorted(maps.Keys(want)))
	}
	awaitAddresses(c.Nodes()...)
	other.Kill(t)
	awaitAddresses(c.Others(other)...)
	other.Start(t)
	awaitAddresses(c.Nodes()...)
	asked.Kill(t)
	other.Kill(t)
	asked.Start(t)
	awaitAddresses(c.Others(other)...)
	other.Start(t)
	awaitAddresses(c.Nodes()...)
	if err := watch.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = watch.Wait() // the error reports the kill
	c.AwaitServing(t)
}
