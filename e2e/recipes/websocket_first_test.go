//go:build linux

package recipes_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardway/e2e/kit/cluster"
)

// firstMessageRoutes are the routes of clients whose first message contains the key.
const firstMessageRoutes = `routes:
  /graphql: [ws-json:/payload/tenant, ws-protocol:graphql-transport-ws]
  /phoenix: [ws-json:/2]
  /rooms: [ws-first]
`

// TestWebSocketKeysInFirstMessages runs the clients of graphql-ws and Phoenix, and WebSockets of the package ws. The key
// is in the parameters of the connection, in the topic of the first channel, and the whole first message.
func TestWebSocketKeysInFirstMessages(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir, node := npmCI(t, "websockets"), findProgram(t, "node")
	config := filepath.Join(t.TempDir(), "shardway.yaml")
	must(t, os.WriteFile(config, []byte(firstMessageRoutes), 0o600))
	w := startWorld(t, func(id string, port int, _ string) (args, env []string) {
		return []string{node, filepath.Join(dir, "app.mjs")}, []string{fmt.Sprint("PORT=", port), "INSTANCE=" + id, `KEEP={"rooms": "keep; replay=1"}`}
	}, "--config="+config)
	nodes := w.Nodes()
	var keys []string
	for _, node := range nodes {
		keys = append(keys, w.keysOf(t, node, 2)...)
	}
	c := &firstMessageClients{w, startLines(t, node, filepath.Join(dir, "first.mjs"), strings.Join(cluster.Addrs(nodes[:2]), ","), strings.Join(keys, ","))}
	before := c.awaitOwners(t, "at the start")

	moved := map[string]bool{}
	for _, key := range keys {
		moved[key] = w.ownerOf(t, key) == nodes[2]
	}
	w.drain(t, nodes[2])
	for protocol, clients := range c.awaitOwners(t, "after a drain") {
		for key, states := range clients {
			for i, state := range states {
				reconnects := state.Opened - before[protocol][key][i].Opened
				if mayReconnect := moved[key] && protocol != "rooms"; (reconnects > 0) != mayReconnect {
					t.Errorf("%s with key %s has reconnected %d times, moved: %v, close codes %v", protocol, key, reconnects, moved[key], state.Codes)
				}
			}
		}
	}
	w.uncordon(t, nodes[2])
	c.awaitOwners(t, "after the return of the node")
	w.restartNodes(t, func([]string) {})
	c.awaitOwners(t, "after a rolling restart")
	crashed := w.instances[nodes[0].ID]
	crashed.kill()
	crashed.start(t)
	crashed.awaitPort(t)
	w.AwaitServing(t)
	c.awaitOwners(t, "after the crash of an instance")
	w.killNode(t, nodes[2])
	c.awaitOwners(t, "after the crash of a node")
}

// firstMessageState describes a client.
type firstMessageState struct {
	Opened   int    `json:"opened"` // connections so far
	Codes    []int  `json:"codes"`  // close codes
	Replies  int    `json:"replies"`
	Instance string `json:"instance"` // instance of the last reply
}

// firstMessageReport contains the clients by protocol and key.
type firstMessageReport map[string]map[string][]firstMessageState

// firstMessageClients is the process with all clients.
type firstMessageClients struct {
	w *world
	*lines
}

// report returns the report of the clients.
func (c *firstMessageClients) report(t *testing.T) (all firstMessageReport) {
	t.Helper()
	must(t, json.Unmarshal(c.ask(t, "report"), &all))
	return all
}

// awaitOwners waits until all clients have new replies of the owner of their key.
func (c *firstMessageClients) awaitOwners(t *testing.T, step string) firstMessageReport {
	t.Helper()
	before := c.report(t)
	var now firstMessageReport
	cluster.Await(t, "the owners reply to all clients "+step, func() error {
		now = c.report(t)
		for protocol, clients := range now {
			for key, states := range clients {
				for i, state := range states {
					if owner := c.w.ownerOf(t, key).ID; state.Instance != owner || state.Replies < before[protocol][key][i].Replies+5 {
						return fmt.Errorf("%s: the owner of %s is %s: %+v, before: %+v", protocol, key, owner, state, before[protocol][key][i])
					}
				}
			}
		}
		return nil
	})
	return now
}
