//go:build linux

package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/wsresume"
)

// sockets returns the list of the command websockets at a node.
func (x *resumeTest) sockets(t *testing.T, at *cluster.Node) (list api.SocketList) {
	t.Helper()
	out, code := shardway(t, "websockets", "--json", "--admin", at.Admin)
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 {
		t.Fatalf("sockets: exit %d, %v, %s", code, err, out)
	}
	return list
}

// attached waits until all sessions have an upstream connection, according to the
// cluster.
func (x *resumeTest) attached(t *testing.T, at *cluster.Node) {
	t.Helper()
	cluster.Await(t, "all sessions have an upstream connection", func() error {
		list := x.sockets(t, at)
		have := 0
		for _, sockets := range list.Shards {
			have += sockets.Attached
		}
		if have != len(x.conns) || len(list.Unresponsive) > 0 {
			return fmt.Errorf("%d sockets, want %d: %+v", have, len(x.conns), list)
		}
		return nil
	})
}

// TestWebSocketMoveTestCommandMovesConnections moves all upstream connections by the
// command, from a node without WebSockets, and then breaks those of one key. No client
// connection is closed, and the app is informed of a gap only for that key.
func TestWebSocketMoveTestCommandMovesConnections(t *testing.T) {
	t.Parallel()
	x := startResume(t)
	x.open(t)
	x.awaitProgress(t)
	startedAt, other := history.Now(), x.nodes[1]
	x.attached(t, other)
	if out, code := shardway(t, "websockets", "move-test", "--all", "--admin", other.Admin); code != 0 || strings.Count(out, "are handed over") != len(x.front) {
		t.Fatalf("websockets move-test: exit %d, %s", code, out)
	}
	cluster.Await(t, "all connections are handed over", func() error {
		if _, planned := x.gaps(t); planned < len(x.conns) {
			return fmt.Errorf("%d hand-offs of %d", planned, len(x.conns))
		}
		return nil
	})
	x.awaitProgress(t)
	if gaps, _ := x.gaps(t); gaps > 0 && x.StarvedTime(startedAt) < time.Second {
		t.Errorf("%d connections begin with a gap", gaps)
	}
	x.attached(t, other)
	before, _ := x.gaps(t)
	shardMap := x.AwaitServedBy(t, x.nodes...)
	key := shardMap.Keys(x.nodes[2].ID, 1)[0]
	if out, code := shardway(t, "websockets", "move-test", "--gap", "--key", key, "--admin", other.Admin); code != 0 {
		t.Fatalf("websockets move-test --gap: exit %d, %s", code, out)
	}
	cluster.Await(t, "the node reports the gaps to the app", func() error {
		if gaps, _ := x.gaps(t); gaps < before+len(x.front) {
			return errors.New("not all")
		}
		return nil
	})
	x.awaitProgress(t)
	if out, code := shardway(t, "websockets", "move-test", "--key", key+"-nobody's", "--admin", other.Admin); code != 1 || !strings.Contains(out, "no resumable WebSocket") {
		t.Errorf("a key without sockets: exit %d, %s", code, out)
	}
	var saw []wsresume.Client
	for _, c := range x.conns {
		c.stop()
	}
	for _, c := range x.conns {
		saw = append(saw, c.wait())
	}
	conns, err := wsresume.Read(x.dir)
	must(t, err)
	for _, wrong := range wsresume.Check(saw, conns) {
		t.Error(wrong)
	}
}
