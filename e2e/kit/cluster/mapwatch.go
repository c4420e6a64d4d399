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

// committedMessage is the message of the log line that a node writes when it has applied a committed
// map. The line contains the epoch.
const committedMessage = "map committed"

// mapWatch collects every committed map that nodes report.
type mapWatch struct {
	// mu protects the following fields.
	mu            sync.Mutex
	maps          map[uint64]Map   // by epoch
	firstObserved map[uint64]int64 // value of history.Now at the first report of each map, by epoch
	conflicts     []string         // descriptions of different maps with one epoch
}

func newMapWatch() *mapWatch {
	return &mapWatch{maps: make(map[uint64]Map), firstObserved: make(map[uint64]int64)}
}

// observe records a map that a node reported. If it differs from a recorded map with the same epoch,
// it records a conflict instead.
func (w *mapWatch) observe(node string, shardMap Map) {
	if shardMap.Epoch == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	known, ok := w.maps[shardMap.Epoch]
	if !ok {
		w.maps[shardMap.Epoch], w.firstObserved[shardMap.Epoch] = shardMap, history.Now()
		return
	}
	if moves := known.Moves(shardMap); len(moves) > 0 {
		w.conflicts = append(w.conflicts, fmt.Sprintf("epoch %d has two maps: the owner of shard %[3]d is %[4]q at %[2]s, and %[5]q elsewhere (%[6]d shards differ)",
			shardMap.Epoch, node, moves[0].Shard, moves[0].To, moves[0].From, len(moves)))
	}
}

// mapRetryInterval is the pause after a failed request for the next map.
const mapRetryInterval = 50 * time.Millisecond

// watchMaps waits for each new map of a node (long polling) until ctx ends. It retries while the
// node does not respond.
func (c *Cluster) watchMaps(ctx context.Context, node *Node) {
	after := uint64(0)
	for ctx.Err() == nil {
		var shardMap Map
		err := c.get(ctx, fmt.Sprintf("http://%s/v1/map?after=%d&wait=3s", node.Admin, after), &shardMap)
		if err == nil {
			c.mapWatch.observe(node.ID, shardMap)
			after = shardMap.Epoch
			continue
		}
		after = 0 // a node with a new data directory may report lower epochs
		timer := time.NewTimer(mapRetryInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// Maps returns the observed committed maps since the start of the cluster, in ascending
// order of epoch. It may miss a map that was replaced before any node was polled.
func (c *Cluster) Maps() []Map {
	c.mapWatch.mu.Lock()
	defer c.mapWatch.mu.Unlock()
	var all []Map
	for _, epoch := range slices.Sorted(maps.Keys(c.mapWatch.maps)) {
		all = append(all, c.mapWatch.maps[epoch])
	}
	return all
}

// MapsWithGapsSince returns the observed maps with at least this epoch, like MapsSince, and marks those that follow maps that
// were committed without being observed.
func (c *Cluster) MapsWithGapsSince(tb testing.TB, epoch uint64) []history.Map {
	tb.Helper()
	all := c.MapsSince(epoch) // before the logs are read, which then contain all these epochs
	committed := c.Committed(tb)
	for i := 1; i < len(all); i++ {
		index, found := slices.BinarySearch(committed, all[i].Epoch)
		all[i].FollowsGap = !found || index == 0 || committed[index-1] != all[i-1].Epoch
	}
	return all
}

// MapsSince returns the observed maps with at least this epoch, for history.Check.
func (c *Cluster) MapsSince(epoch uint64) []history.Map {
	var all []history.Map
	for _, shardMap := range c.Maps() {
		if shardMap.Epoch < epoch {
			continue
		}
		observed := history.Map{Epoch: shardMap.Epoch, At: c.mapWatch.firstObservedAt(shardMap.Epoch), Owners: make([]string, shardMap.Shards)}
		for shard := range shardMap.Shards {
			observed.Owners[shard] = shardMap.App(shard)
		}
		all = append(all, observed)
	}
	return all
}

func (w *mapWatch) firstObservedAt(epoch uint64) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.firstObserved[epoch]
}

// Committed returns the committed epochs in the logs of the nodes since the start of the
// cluster, in ascending order. Unlike Maps, it misses none.
func (c *Cluster) Committed(tb testing.TB) []uint64 {
	tb.Helper()
	epochs := make(map[uint64]bool)
	for _, node := range c.nodes {
		data, err := os.ReadFile(node.logFile())
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			tb.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			var entry struct {
				Message string `json:"message"`
				Epoch   uint64 `json:"epoch"`
			}
			if json.Unmarshal(line, &entry) == nil && entry.Message == committedMessage {
				epochs[entry.Epoch] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(epochs))
}
