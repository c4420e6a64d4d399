package node_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"shardway/shardmap"
)

// A client stayed connected until the shutdown timeout had passed. No time was left to ask the leader, so the node stayed a voter. The
// leader removes a voter that left only if it receives heartbeats of all other voters, and here one of these is dead.
func TestNodeWithAClientThatStaysLeavesRaft(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			w.start(name)
		}
		w.untilSettled("a", "b", "c", "d", "e")
		w.untilVoters(5)
		dead := w.follower()
		rest := w.others(dead)
		dead.kill()
		w.untilSettled(rest...)
		p := w.follower()
		w.holdsThrough(p, w.leader())
		p.terminate()
		remain := w.others(p)
		w.untilSettled(remain...)
		want := append(remain, dead.name)
		slices.Sort(want)
		w.untilServers(want...)
	})
}

// holdsThrough sends a request through p for a key of owner, whose app never responds.
func (w *world) holdsThrough(p, owner *process) {
	w.t.Helper()
	app, err := owner.host.Listen(":9000")
	if err != nil {
		w.t.Fatal(err)
	}
	conn, err := w.net.Host("client of "+p.name).Dial(context.Background(), p.host.Addr(8080))
	if err != nil {
		w.t.Fatal(err)
	}
	key := ""
	for i := 0; key == "" || w.committed().Owner(shardmap.ShardOf(key, shards)) != shardmap.NodeID(owner.name); i++ {
		key = fmt.Sprint("k", i)
	}
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\n\r\n", key); err != nil {
		w.t.Fatal(err)
	}
	if _, err := app.Accept(); err != nil {
		w.t.Fatal(err)
	}
}
