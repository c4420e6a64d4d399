//go:build linux

package e2e_test

import (
	"bufio"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/netns"
)

// TestVanishedClientOfEventStreamIsDetected drops all packets of the client of an event
// stream, so it acknowledges nothing. The app writes less than the socket buffer holds,
// so that no write blocks.
func TestVanishedClientOfEventStreamIsDetected(t *testing.T) {
	t.Parallel() // it waits for the kernel's timeout most of the time
	if err := netns.Available(); err != nil {
		t.Skipf("no network namespaces here: %v", err)
	}
	if err := netns.Filters(); err != nil {
		t.Skipf("no packet filters here: %v", err)
	}
	network, err := netns.New(int(networks.Add(1)), 2)
	must(t, err)
	t.Cleanup(func() { must(t, network.Close()) })
	c := cluster.Start(t, cluster.Options{Binaries: binaries(t), Nodes: 1, Shards: shards, Net: network, Flags: []string{"--idle-timeout", "1s"}})
	c.AwaitServing(t)
	node, client := c.Nodes()[0], network.Host(1)
	running := func() float64 {
		m, failed := node.Metrics(t.Context())
		must(t, failed)
		return m.Sum("shardway_requests_in_flight")
	}

	args := client.Command("curl", "-sN", "-H", "App-Id: vanished", "-H", "App-Events: 200ms", "-H", "X-Shard-Key: k", "http://"+node.Addr+"/")
	curl := exec.CommandContext(t.Context(), args[0], args[1:]...)
	events, err := curl.StdoutPipe()
	must(t, err)
	must(t, curl.Start())
	defer func() {
		_ = curl.Process.Kill()
		_ = curl.Wait()
	}()
	for r, ticks := bufio.NewReader(events), 0; ticks < 3; {
		line, err := r.ReadString('\n')
		must(t, err)
		if strings.HasPrefix(line, "data: tick") {
			ticks++
		}
	}
	if got := running(); got != 1 {
		t.Fatalf("%v requests run, want the event stream", got)
	}

	args = client.Command("nft", "add table ip vanished; add chain ip vanished in { type filter hook input priority 0; policy drop; }; "+
		"add chain ip vanished out { type filter hook output priority 0; policy drop; }")
	if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cluster.Await(t, "the event stream ends 30 s after its client has vanished", func() error {
		if got := running(); got != 0 {
			return fmt.Errorf("%v requests run", got)
		}
		return nil
	})
}
