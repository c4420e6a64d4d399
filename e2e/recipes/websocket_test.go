//go:build linux

package recipes_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shardway/e2e/kit/cluster"
)

// keptProtocols are the protocols that docs/apps/websocket-protocols.md recommends to keep, with the value of
// Shardway-WebSocket.
func keptProtocols() map[string]string {
	return map[string]string{"yjs": "keep; replay=1", "hocuspocus": "keep; replay=2"}
}

// protocolReport describes the clients of one protocol. Only some fields apply to each protocol.
type protocolReport struct {
	Opened int   `json:"opened"` // connections so far, of all clients
	Codes  []int `json:"codes"`  // close codes that the clients have received
	Error  string

	// Yjs documents.

	Edits    int `json:"edits"`
	Diverged int `json:"diverged"` // documents whose clients have different states
	Lost     int `json:"lost"`     // edits that a client does not have

	// Hocuspocus with several documents in one WebSocket.

	Remote []int `json:"remote"` // edits of another client, for each document

	// Socket.IO.

	Connects    int      `json:"connects"`
	Disconnects []string `json:"disconnects"`
	Acked       int      `json:"acked"`
	Missing     int      `json:"missing"`    // acknowledged messages that a client does not have
	Unanswered  int      `json:"unanswered"` // messages without acknowledgement, although later ones have it

	// Other protocols: messages of the server.

	Ticks   int `json:"ticks"`
	Replies int `json:"replies"`
	Refused int `json:"refused"` // messages to a channel that the server does not know
	Results int `json:"results"`
}

// received returns the number of messages of the server.
func (r *protocolReport) received() int {
	received := r.Edits + r.Acked + r.Ticks + r.Replies + r.Results
	for _, edits := range r.Remote {
		received += edits
	}
	return received
}

// protocolClients is the process with the clients of all protocols.
type protocolClients struct{ *lines }

// startProtocolClients starts clients of these protocols. They connect to nodes with these addresses. key is the key
// of the protocols with one client.
func startProtocolClients(t *testing.T, dir string, addrs []string, protocols, key string) *protocolClients {
	t.Helper()
	return &protocolClients{startLines(t, findProgram(t, "node"), filepath.Join(dir, "client.mjs"), strings.Join(addrs, ","), protocols, key)}
}

// report sends a command to the clients, and returns their report.
func (c *protocolClients) report(t *testing.T, command string) map[string]*protocolReport {
	t.Helper()
	reports := map[string]*protocolReport{}
	must(t, json.Unmarshal(c.ask(t, command), &reports))
	return reports
}

// awaitProgress waits until each protocol has received more messages than in the last report.
func (c *protocolClients) awaitProgress(t *testing.T, step string) map[string]*protocolReport {
	t.Helper()
	before := c.report(t, "report")
	var now map[string]*protocolReport
	cluster.Await(t, "all protocols work "+step, func() error {
		now = c.report(t, "report")
		for name, report := range now {
			if report.received() < before[name].received()+5 {
				return fmt.Errorf("%s: %+v, before: %+v", name, *report, *before[name])
			}
		}
		return nil
	})
	t.Logf("%s:", step)
	for name, report := range now {
		t.Logf("    %s: %+v", name, *report)
	}
	return now
}

// startProtocolWorld starts the server of all protocols behind three nodes.
func startProtocolWorld(t *testing.T, kept map[string]string) (w *world, dir string) {
	t.Helper()
	dir, node := npmCI(t, "websockets"), findProgram(t, "node")
	values, err := json.Marshal(kept)
	must(t, err)
	data := t.TempDir()
	w = startWorld(t, func(id string, port int, _ string) (args, env []string) {
		return []string{node, filepath.Join(dir, "app.mjs")}, []string{fmt.Sprint("PORT=", port), "INSTANCE=" + id, "DATA=" + data, "KEEP=" + string(values)}
	}, "--key=query:key")
	return w, dir
}

// TestWebSocketProtocolsSurviveMoves runs the real clients of several protocols while shards move, nodes restart
// and a node is killed. The protocols of keptProtocols keep their connections in a planned move. The other
// clients reconnect. In the end, no document has diverged, and no acknowledged message is missing.
func TestWebSocketProtocolsSurviveMoves(t *testing.T) {
	t.Parallel() // it waits most of the time
	w, dir := startProtocolWorld(t, keptProtocols())
	nodes := w.Nodes()
	clients := startProtocolClients(t, dir, cluster.Addrs(nodes[:2]), "yjs,hocuspocus,socketio,graphql,phoenix,signalr", w.keysOf(t, nodes[2], 1)[0])
	clients.awaitProgress(t, "at the start")
	var before map[string]*protocolReport
	cluster.Await(t, "all clients of kept protocols are connected", func() error {
		before = clients.report(t, "report")
		for name := range keptProtocols() {
			if before[name].Opened != 9 {
				return fmt.Errorf("%s has %d connections", name, before[name].Opened)
			}
		}
		return nil
	})

	for _, gap := range []string{"false", "true"} {
		nodes[0].PerformAction(t, "websockets", url.Values{"move_test": {"true"}, "all": {"true"}, "gap": {gap}})
		clients.awaitProgress(t, "after a test move, gap: "+gap)
	}
	w.drain(t, nodes[2])
	after := clients.awaitProgress(t, "after a drain")
	for name := range keptProtocols() {
		if after[name].Opened != before[name].Opened || len(after[name].Codes) > 0 {
			t.Errorf("%s has reconnected after a planned move: %+v", name, *after[name])
		}
	}
	for _, name := range []string{"graphql", "phoenix", "signalr"} {
		if !slices.Equal(after[name].Codes, []int{1012}) || after[name].Opened != 2 {
			t.Errorf("%s has not reconnected once after a planned move: %+v", name, *after[name])
		}
	}
	w.uncordon(t, nodes[2])
	clients.awaitProgress(t, "after the return of the node")
	w.restartNodes(t, func([]string) {})
	clients.awaitProgress(t, "after a rolling restart")
	w.killNode(t, nodes[2])
	clients.awaitProgress(t, "after a kill")

	clients.report(t, "stop")
	cluster.Await(t, "all clients have the same documents", func() error {
		for name, report := range clients.report(t, "check") {
			if report.Diverged+report.Lost+report.Missing > 0 || report.Error != "" {
				return fmt.Errorf("%s: %+v", name, *report)
			}
		}
		return nil
	})
}

// TestWebSocketProtocolsThatCannotBeKept keeps the WebSockets of protocols that docs/apps/websocket-protocols.md recommends
// to close. A test move then shows why: clients lose data without notice, or reconnect nevertheless.
func TestWebSocketProtocolsThatCannotBeKept(t *testing.T) {
	t.Parallel() // it waits most of the time
	w, dir := startProtocolWorld(t, map[string]string{"socketio": "keep; replay=1", "graphql": "keep; replay=1", "phoenix": "keep; replay=1", "signalr": "keep; replay=1", "hocuspocus": "keep; replay=2"})
	clients := startProtocolClients(t, dir, cluster.Addrs(w.Nodes()[:2]), "socketio,graphql,phoenix,signalr,hocuspocus-shared", "tea")
	before := clients.awaitProgress(t, "at the start")
	w.Nodes()[0].PerformAction(t, "websockets", url.Values{"move_test": {"true"}, "all": {"true"}, "gap": {"false"}})
	var ticks, edits silence
	cluster.Await(t, "the clients show that they cannot be kept", func() error {
		now := clients.report(t, "report")
		graphql, phoenix, signalr, socketio, shared := now["graphql"], now["phoenix"], now["signalr"], now["socketio"], now["hocuspocus-shared"]
		switch {
		case !ticks.lasts(graphql.Ticks, phoenix.Replies) || graphql.Opened > before["graphql"].Opened:
			return fmt.Errorf("the subscription of graphql-ws has not ended silently: %+v", *graphql)
		case !edits.lasts(shared.Remote[2], phoenix.Replies) || shared.Opened > before["hocuspocus-shared"].Opened:
			return fmt.Errorf("the third document of Hocuspocus has not ended silently: %+v", *shared)
		case phoenix.Refused == 0 || phoenix.Opened > before["phoenix"].Opened:
			return fmt.Errorf("the second channel of Phoenix has not ended silently: %+v", *phoenix)
		case signalr.Opened == before["signalr"].Opened:
			return fmt.Errorf("SignalR has not reconnected: %+v", *signalr)
		case socketio.Unanswered == 0 && len(socketio.Disconnects) == 0:
			return fmt.Errorf("Socket.IO has neither lost acknowledgements nor reconnected: %+v", *socketio)
		}
		return nil
	})
}

// silence finds out whether a client has stopped to receive messages.
type silence struct{ received, reference int }

// lasts reports whether a client has received nothing new, while another one has received 10 messages. Both
// numbers only grow.
func (s *silence) lasts(received, reference int) bool {
	if received != s.received {
		s.received, s.reference = received, reference
	}
	return reference >= s.reference+10
}

// TestColyseusRoomsCannotBeKept keeps the WebSockets of Colyseus. The room of a client ends with a test move
// nevertheless, because the seat of the client has been used.
func TestColyseusRoomsCannotBeKept(t *testing.T) {
	t.Parallel() // it waits most of the time
	w, clients := startColyseus(t, "keep")
	clients.awaitProgress(t, "at the start")
	w.Nodes()[0].PerformAction(t, "websockets", url.Values{"move_test": {"true"}, "all": {"true"}, "gap": {"false"}})
	cluster.Await(t, "all clients join another room", func() error {
		if now := clients.report(t, "report")["colyseus"]; len(now.Codes) < 24 || now.Opened != 24+len(now.Codes) {
			return fmt.Errorf("%d rooms ended, and the clients have joined %d: %v", len(now.Codes), now.Opened, now.Codes)
		}
		return nil
	})
}

// startColyseus starts a Colyseus server behind three nodes, with this value of Shardway-WebSocket, and 24 clients.
func startColyseus(t *testing.T, kept string) (*world, *protocolClients) {
	t.Helper()
	dir, node := npmCI(t, "colyseus"), findProgram(t, "node")
	w := startWorld(t, func(_ string, port int, _ string) (args, env []string) {
		return []string{node, filepath.Join(dir, "app.mjs")}, []string{fmt.Sprint("PORT=", port), "KEEP=" + kept}
	}, "--key=query:key")
	return w, startProtocolClients(t, dir, cluster.Addrs(w.Nodes()[:1]), "", "")
}

// TestColyseusRoomsEndWithMove runs the Colyseus client. A move of the shard ends the room with close code 1012,
// and the client joins another one, at the new owner.
func TestColyseusRoomsEndWithMove(t *testing.T) {
	t.Parallel() // it waits most of the time
	w, clients := startColyseus(t, "")
	nodes := w.Nodes()
	clients.awaitProgress(t, "at the start")
	w.drain(t, nodes[2])
	var after *protocolReport
	cluster.Await(t, "clients join another room after a drain", func() error {
		after = clients.report(t, "report")["colyseus"]
		if len(after.Codes) == 0 || after.Opened != 24+len(after.Codes) {
			return fmt.Errorf("%d rooms ended, and the clients have joined %d", len(after.Codes), after.Opened)
		}
		return nil
	})
	clients.awaitProgress(t, "after a drain")
	for _, code := range after.Codes {
		if code != 1012 {
			t.Errorf("a room ended with %d", code)
		}
	}
}
