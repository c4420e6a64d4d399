//go:build linux

package recipes_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"shardway/e2e/kit/cluster"
)

// channelReport describes a channel of Centrifugo and its subscribers.
type channelReport struct {
	Acked       int    `json:"acked"`  // number of the last publication that the server has acknowledged
	Failed      string `json:"failed"` // last error after which the publisher had to repeat a publication
	Subscribers []struct {
		Last        int `json:"last"`        // number of the last publication
		Lost        int `json:"lost"`        // publications that are missing without notice
		Recovered   int `json:"recovered"`   // reconnects after which nothing is missing
		Unrecovered int `json:"unrecovered"` // reconnects after which the client reports possible loss
		Presence    int `json:"presence"`    // number of clients in the channel, as the subscriber sees it
	} `json:"subscribers"`
}

// TestCentrifugoChannelsHaveOneOwner runs the library of which Centrifugo consists, with the memory engine, and the
// JavaScript client. The key is the channel: in the body of a publish request, and in the query of a WebSocket.
// The client sends its first two commands in one message, so ws-json cannot read a key there.
func TestCentrifugoChannelsHaveOneOwner(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir, node := npmCI(t, "centrifugo"), findProgram(t, "node")
	server := filepath.Join(t.TempDir(), "server")
	build := exec.CommandContext(t.Context(), findProgram(t, "go"), "build", "-trimpath", "-o", server, ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	w := startWorld(t, func(_ string, port int, _ string) (args, env []string) {
		return []string{server}, []string{fmt.Sprint("PORT=", port)}
	}, "--key=json:/channel,query:channel")
	nodes := w.Nodes()
	var channels []string
	for _, node := range nodes {
		channels = append(channels, w.keysOf(t, node, 2)...)
	}
	c := &centrifugoClients{startLines(t, node, filepath.Join(dir, "client.mjs"), strings.Join(cluster.Addrs(nodes[:2]), ","), strings.Join(channels, ","))}
	c.report(t, "nodes "+strings.Join(cluster.Addrs(nodes), ","))
	c.awaitDelivery(t, "at the start")

	// The instances continue to run, so the clients recover all publications.
	w.restartNodes(t, func([]string) {})
	for channel, report := range c.awaitDelivery(t, "after a rolling restart") {
		for _, s := range report.Subscribers {
			if s.Unrecovered > 0 || s.Recovered == 0 {
				t.Errorf("the history of %s is lost in a rolling restart: %+v", channel, s)
			}
		}
	}

	// The history is in the memory of an instance. Only clients of the drained node notice that.
	current, err := nodes[0].Map(t.Context())
	must(t, err)
	w.drain(t, nodes[2])
	for channel, report := range c.awaitDelivery(t, "after a drain") {
		for _, s := range report.Subscribers {
			if (s.Unrecovered > 0) != (current.OwnerOf(channel) == nodes[2].ID) {
				t.Errorf("%s of node %s after a drain of node %s: %+v", channel, current.OwnerOf(channel), nodes[2].ID, s)
			}
		}
	}
	w.uncordon(t, nodes[2])
	c.awaitDelivery(t, "after the return of the node")
	crashed := w.instances[nodes[1].ID]
	crashed.kill()
	crashed.start(t)
	crashed.awaitPort(t)
	c.awaitDelivery(t, "after the crash of an instance")
	c.report(t, "nodes "+strings.Join(cluster.Addrs(nodes[:2]), ","))
	w.killNode(t, nodes[2])
	c.awaitDelivery(t, "after the crash of a node")

	c.report(t, "stop")
	cluster.Await(t, "no publication is missing without notice", func() error {
		for channel, report := range c.report(t, "report") {
			for _, s := range report.Subscribers {
				if s.Lost > 0 {
					return fmt.Errorf("%s: %+v", channel, *report)
				}
			}
		}
		return nil
	})
}

// centrifugoClients is the process with all clients of Centrifugo.
type centrifugoClients struct{ *lines }

// report sends a command to the clients, and returns their report for each channel.
func (c *centrifugoClients) report(t *testing.T, command string) map[string]*channelReport {
	t.Helper()
	reports := map[string]*channelReport{}
	must(t, json.Unmarshal(c.ask(t, command), &reports))
	return reports
}

// awaitDelivery waits until new publications reach all subscribers, and each subscriber sees the others.
func (c *centrifugoClients) awaitDelivery(t *testing.T, step string) map[string]*channelReport {
	t.Helper()
	before := c.report(t, "report")
	var now map[string]*channelReport
	cluster.Await(t, "publications reach all subscribers "+step, func() error {
		now = c.report(t, "report")
		for channel, report := range now {
			for _, s := range report.Subscribers {
				if s.Last < before[channel].Acked+5 || s.Presence != len(report.Subscribers) {
					return fmt.Errorf("%s: %+v, before: %+v", channel, *report, *before[channel])
				}
			}
		}
		return nil
	})
	for channel, report := range now {
		t.Logf("%s: %s: %+v", step, channel, *report)
	}
	return now
}
