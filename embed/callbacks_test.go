package embed_test

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/embed"
	"shardway/internal/freeport"
)

// recorder records the calls of the callbacks of a node.
type recorder struct {
	mu    sync.Mutex
	calls []string
}

func (r *recorder) add(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
}

// count returns how often a call was recorded.
func (r *recorder) count(call string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if c == call {
			n++
		}
	}
	return n
}

func (r *recorder) set(c *embed.Config) {
	node := func(name string) func(context.Context, embed.NodeChange) {
		return func(_ context.Context, n embed.NodeChange) {
			r.add(strings.TrimSpace(name + " " + n.Node + " " + n.Reason))
		}
	}
	c.NodeJoined, c.NodeRejoined, c.NodeLeft = node("joined"), node("rejoined"), node("left")
	open := uint64(0)
	c.RebalanceStarted = func(_ context.Context, b embed.Rebalance) {
		if open != 0 || b.Moved == 0 || b.Epoch <= b.Base {
			r.add("wrong start")
		}
		open = b.Epoch
		r.add("started " + b.Reason)
	}
	c.RebalanceCompleted = func(_ context.Context, b embed.Rebalance) {
		if b.Epoch != open {
			r.add("wrong end")
		}
		open = 0
		r.add("completed " + b.Reason)
	}
	c.ClusterHealthChanged = func(_ context.Context, h embed.ClusterHealth) {
		if h.State == h.Previous {
			r.add("wrong health")
		}
		r.add("health " + h.State)
	}
}

// An app is informed of nodes, rebalances and the state of the cluster, and can ask for owners and nodes.
func TestAppIsInformedOfTheCluster(t *testing.T) {
	t.Parallel()
	calls := new(recorder)
	a := start(t, "a", writeIdentity, calls.set)
	ctx, cancel := context.WithCancel(t.Context())
	events := make(chan embed.Event, 4096)
	go func() {
		defer close(events)
		for e := range a.Events(ctx) {
			events <- e
		}
	}()
	b := start(t, "b", writeIdentity, func(c *embed.Config) { c.Zone = "z1" }, a)
	until(t, "both own shards", func() error { return is(len(a.Owned()) == 8 && len(b.Owned()) == 8) })
	owned := 0
	for shard := range 16 {
		owner := a.OwnerOf(shard)
		if owner != b.OwnerOf(shard) || a.IsOwner(shard) != (owner == "a") || b.IsOwner(shard) != (owner == "b") {
			t.Errorf("shard %d: owner %q at a and %q at b, a %v, b %v", shard, owner, b.OwnerOf(shard), a.IsOwner(shard), b.IsOwner(shard))
		}
		if a.IsOwner(shard) {
			owned++
		}
	}
	for _, shard := range []int{-1, 16, 1 << 40} {
		if a.OwnerOf(shard) != "" || a.IsOwner(shard) {
			t.Errorf("shard %d has an owner", shard)
		}
	}
	if owned != 8 || a.OwnerOf(a.ShardOf("alice")) != a.Owner("alice") {
		t.Errorf("a owns %d shards", owned)
	}
	until(t, "a lists both nodes", func() error {
		nodes := a.Nodes()
		isListed := len(nodes) == 2 && nodes[0].ID == "a" && nodes[0].Leader && nodes[0].Voter && nodes[1].ID == "b" && nodes[1].Zone == "z1" && !nodes[1].Leader
		return is(isListed && nodes[0].Shards == 8 && nodes[1].Shards == 8 && nodes[0].State == "active" && nodes[1].State == "active" && nodes[1].Weight == 1 && nodes[1].Endpoints["http"] != "" && !nodes[1].Gateway)
	})
	b.stop()
	<-b.done
	until(t, "a owns all shards", func() error { return is(len(a.Owned()) == 16) })
	for _, call := range []string{"joined a", "joined b", "left b left", "started join", "completed join", "started leave", "completed leave"} {
		until(t, call, func() error { return is(calls.count(call) > 0) })
	}
	a.stop()
	<-a.done
	cancel()
	for _, call := range []string{"joined a", "joined b", "left b left"} {
		if n := calls.count(call); n != 1 {
			t.Errorf("%d calls of %q", n, call)
		}
	}
	for _, call := range []string{"wrong start", "wrong end", "wrong health", "rejoined b"} {
		if calls.count(call) > 0 {
			t.Errorf("%s in %q", call, calls.calls)
		}
	}
	if calls.count("health single-node")+calls.count("health stable") == 0 {
		t.Errorf("no state of the cluster in %q", calls.calls)
	}
	a.expectEvents(t, events)
	_ = a.Nodes() // after the end
}

// expectEvents checks the events of a node that has stopped.
func (m *member) expectEvents(t *testing.T, events <-chan embed.Event) {
	t.Helper()
	var kinds []string
	last, moved := uint64(0), 0
	for e := range events {
		if e.Seq != last+1 || e.ID == "" || time.Since(e.Time) > time.Hour {
			t.Errorf("event %+v after number %d", e, last)
		}
		last = e.Seq
		kinds = append(kinds, e.Kind)
		text, err := json.Marshal(e)
		var decoded struct {
			ID, Kind string
			Seq      uint64
			Shards   []struct{ Shards []int }
		}
		if err == nil {
			err = json.Unmarshal(text, &decoded)
		}
		if err != nil || decoded.ID != e.ID || decoded.Kind != e.Kind || decoded.Seq != e.Seq {
			t.Errorf("%+v is encoded as %s, %v", e, text, err)
		}
		for _, list := range decoded.Shards {
			moved += len(list.Shards)
		}
	}
	for _, kind := range []string{"node-joined", "leader-elected", "map-committed", "shards-moved", "join-completed", "node-left"} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("no event %s in %q", kind, kinds)
		}
	}
	if moved < 16 {
		t.Errorf("%d shards moved", moved)
	}
}

// Run has not started the node yet.
func TestMethodsBeforeRun(t *testing.T) {
	t.Parallel()
	p := freeport.Addrs(t, 4)
	n, err := embed.New(embed.Config{Handler: writeIdentity, Log: io.Discard, Data: t.TempDir(), Key: []string{"header:X-User"}, Listen: p[0], Admin: p[1], Peer: p[2], Gossip: p[3]})
	if err != nil {
		t.Fatal(err)
	}
	if n.Nodes() != nil || n.OwnerOf(0) != "" || n.IsOwner(0) {
		t.Errorf("%v, %q, %v", n.Nodes(), n.OwnerOf(0), n.IsOwner(0))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Run(ctx); err != nil {
		t.Error(err)
	}
}
