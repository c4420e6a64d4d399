//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/node/childproc"
)

// TestIsolatedNodeEndsItsProcessesFirst isolates a follower, and then the leader, while clients write. Its processes end
// before the other nodes start processes of the same keys: each process holds a lock that the next one needs.
func TestIsolatedNodeEndsItsProcessesFirst(t *testing.T) {
	t.Parallel() // it waits for leases to end most of the time
	dir := t.TempDir()
	c, network := startInNamespaces(t, keyProcessFlags(t, dir)...)
	var keys []string
	for _, node := range c.Nodes() {
		keys = append(keys, c.AwaitServing(t).Keys(node.ID, 1)[:2]...)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w := startWriters(ctx, cluster.Addrs(c.Nodes()), keys)
	w.awaitProgress(t, 3)
	for _, choose := range []func(testing.TB) *cluster.Node{c.Follower, c.Leader} {
		minority := choose(t)
		pids := processesAt(t, minority)
		if len(pids) == 0 {
			t.Fatalf("node %s runs no process", minority.ID)
		}
		w.useNodes(c.Others(minority))
		endFault := minority.RecordFault(history.Unreachable)
		must(t, network.Isolate(hostIndex(minority)))
		cluster.Await(t, "the processes of the isolated node have ended", func() error { return runningOf(pids) })
		w.awaitProgress(t, 3)
		if pids = processesAt(t, minority); len(pids) != 0 {
			t.Errorf("without a lease, node %s runs processes %v", minority.ID, pids)
		}
		must(t, network.Heal())
		endFault()
		c.AwaitServing(t)
		w.useNodes(c.Nodes())
		w.awaitProgress(t, 3)
	}
	stop()
	w.done.Wait()
	w.check(t, dir)
}

// TestNamedKeyReachesItsProcess sends requests to the process of one key, which names another key. The request then runs
// once, in the process of that key.
func TestNamedKeyReachesItsProcess(t *testing.T) {
	t.Parallel()
	c, dir := startWithProcesses(t, 2)
	shardMap := c.AwaitServing(t)
	first, second := shardMap.Keys("a", 1)[:2], shardMap.Keys("b", 1)[:1]
	number := 0
	for _, ingress := range c.Nodes() {
		for _, pair := range [][2]string{{first[0], first[1]}, {first[0], second[0]}, {second[0], first[0]}} {
			number++
			line := fmt.Sprint("line-", number)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+ingress.Addr+"/", strings.NewReader(line))
			must(t, err)
			req.Header.Set("X-Shard-Key", pair[0])
			req.Header.Set("Belongs-To", pair[1])
			res, err := http.DefaultClient.Do(req)
			must(t, err)
			_ = res.Body.Close()
			if res.StatusCode != http.StatusCreated {
				t.Errorf("node %s, key %s names %s: %s", ingress.ID, pair[0], pair[1], res.Status)
			}
			for i, key := range pair {
				content, err := os.ReadFile(filepath.Join(dir, childproc.KeyDirectory([]byte(key)), "lines"))
				must(t, err)
				if count := strings.Count(string(content), line+"\n"); count != i {
					t.Errorf("node %s, key %s names %s: the request ran %d times for key %s", ingress.ID, pair[0], pair[1], count, key)
				}
			}
		}
	}
}

// TestImmediateTakeoverExcludesProcesses starts a node with --exec in a cluster with takeover immediate. The node stops. With
// another takeover it starts, and takeover immediate is then refused.
func TestImmediateTakeoverExcludesProcesses(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Binaries: binaries(t), Nodes: 2, Shards: 32, Flags: []string{"--takeover", "immediate"}})
	node := c.Add(t, append(keyProcessFlags(t, t.TempDir()), "--takeover", "lease")...)
	node.AwaitExit(t, 1)
	if log := node.Process().Output(1 << 20); !strings.Contains(log, "run shardway settings --takeover lease") {
		t.Errorf("log of the node:\n%s", log)
	}
	settings := func(takeover string) (out string, code int) {
		return shardway(t, "settings", "--takeover", takeover, "--admin", c.Node("a").Admin)
	}
	cluster.Await(t, "the takeover is changed", func() error {
		if out, code := settings("lease"); code != 0 {
			return fmt.Errorf("exit %d, %s", code, out)
		}
		return nil
	})
	node.Start(t)
	c.AwaitServing(t)
	if out, code := settings("immediate"); code == 0 || !strings.Contains(out, "--exec is set at node c") {
		t.Errorf("takeover immediate beside a node with --exec: exit %d, %s", code, out)
	}
	node.Stop(t)
	cluster.Await(t, "the takeover is changed without the node", func() error {
		if out, code := settings("immediate"); code != 0 {
			return fmt.Errorf("exit %d, %s", code, out)
		}
		return nil
	})
}
