//go:build linux

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"shardway/e2e/kit/history"
)

// committed is what a node's log says, with the epoch, when it has applied a
// committed map.
const committed = "map committed"

// watch collects every committed map that nodes report.
type watch struct {
	mu        sync.Mutex
	maps      map[uint64]Map
	at        map[uint64]int64 // when they were first seen, readings of history.Now
	conflicts []string
}

func newWatch() *watch { return &watch{maps: make(map[uint64]Map), at: make(map[uint64]int64)} }

// see notes a map, and that it contradicts another one of its epoch.
func (w *watch) see(node string, m Map) {
	if m.Epoch == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	known, ok := w.maps[m.Epoch]
	if !ok {
		w.maps[m.Epoch], w.at[m.Epoch] = m, history.Now()
		return
	}
	if moves := known.Moves(m); len(moves) > 0 {
		w.conflicts = append(w.conflicts, fmt.Sprintf("epoch %d names two maps: at %s shard %d is %q's, elsewhere %q's (%d differ)",
			m.Epoch, node, moves[0].Shard, moves[0].To, moves[0].From, len(moves)))
	}
}

// follow polls one node for its next map until ctx ends. A node that is dead or
// stopped is asked again.
func (c *Cluster) follow(ctx context.Context, n *Node) {
	after := uint64(0)
	for ctx.Err() == nil {
		var m Map
		err := c.get(ctx, fmt.Sprintf("http://%s/v1/map?after=%d&wait=3s", n.Admin, after), &m)
		if err == nil {
			c.watch.see(n.ID, m)
			after = m.Epoch
			continue
		}
		after = 0 // a wiped node begins anew
		t := time.NewTimer(50 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// Maps returns the committed maps that were seen since the cluster's start, in
// the order of their epochs. Between two polls of every node one may be missed.
func (c *Cluster) Maps() []Map {
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	var all []Map
	for _, epoch := range slices.Sorted(maps.Keys(c.watch.maps)) {
		all = append(all, c.watch.maps[epoch])
	}
	return all
}

// MapsSince are the maps that were seen, from an epoch on, for a judge.
func (c *Cluster) MapsSince(epoch uint64) []history.Map {
	var all []history.Map
	for _, m := range c.Maps() {
		if m.Epoch < epoch {
			continue
		}
		seen := history.Map{Epoch: m.Epoch, At: c.watch.seen(m.Epoch), Owners: make([]string, m.Shards)}
		for s := range m.Shards {
			seen.Owners[s] = m.Owner(s)
		}
		all = append(all, seen)
	}
	return all
}

func (w *watch) seen(epoch uint64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at[epoch]
}

// Committed returns the epochs that the nodes' logs report as committed, since
// the cluster's start and in their order: unlike Maps it misses none.
func (c *Cluster) Committed(tb testing.TB) []uint64 {
	tb.Helper()
	seen := make(map[uint64]bool)
	for _, n := range c.nodes {
		b, err := os.ReadFile(n.logFile())
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			tb.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			var l struct {
				Message string `json:"message"`
				Epoch   uint64 `json:"epoch"`
			}
			if json.Unmarshal(line, &l) == nil && l.Message == committed {
				seen[l.Epoch] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
