//go:build linux

package cluster

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func readMap(t *testing.T, s string) Map {
	t.Helper()
	var shardMap Map
	if err := json.Unmarshal([]byte(s), &shardMap); err != nil {
		t.Fatal(err)
	}
	return shardMap
}

func TestMapReturnsOwners(t *testing.T) {
	m := readMap(t, `{"epoch":7,"shards":5,"hash":"xxhash64","nodes":[{"id":"a","http":"x"},{"id":"b","http":"y"}],"owners":[0,1,1,0,0]}`)
	o := readMap(t, `{"epoch":9,"shards":5,"nodes":[{"id":"b"},{"id":"c"}],"owners":[1,0,0,-1,1]}`)
	if m.Owner(0) != "a" || m.Owner(1) != "b" || o.Owner(3) != "" || m.Owner(9) != "" {
		t.Errorf("owners %q %q %q %q", m.Owner(0), m.Owner(1), o.Owner(3), m.Owner(9))
	}
	if !m.IsBalanced() || o.IsBalanced() || m.Counts()["a"] != 3 || o.Counts()[""] != 1 {
		t.Errorf("counts %v and %v", m.Counts(), o.Counts())
	}
	if moves := m.Moves(o); !slices.Equal(moves, []Move{{0, "a", "c"}, {3, "a", ""}, {4, "a", "c"}}) {
		t.Errorf("moves = %v", moves)
	}
	for _, key := range m.Keys("b", 2) {
		if m.OwnerOf(key) != "b" {
			t.Errorf("key %q is %q's", key, m.OwnerOf(key))
		}
	}
	if n := len(m.Keys("b", 2)); n != 4 {
		t.Errorf("%d keys, want 4", n)
	}
}

// The test plants two maps with one epoch.
func TestMapWatchFindsTwoMapsWithOneEpoch(t *testing.T) {
	w := newMapWatch()
	w.observe("a", readMap(t, `{"epoch":7,"shards":2,"nodes":[{"id":"a"},{"id":"b"}],"owners":[0,1]}`))
	w.observe("b", readMap(t, `{"epoch":7,"shards":2,"nodes":[{"id":"b"},{"id":"a"}],"owners":[1,0]}`)) // the same map in another notation
	w.observe("b", readMap(t, `{"epoch":0,"shards":2,"nodes":[],"owners":[-1,-1]}`))
	if len(w.conflicts) != 0 || len(w.maps) != 1 {
		t.Fatalf("conflicts %v, %d maps", w.conflicts, len(w.maps))
	}
	w.observe("c", readMap(t, `{"epoch":7,"shards":2,"nodes":[{"id":"a"},{"id":"b"}],"owners":[0,0]}`))
	if len(w.conflicts) != 1 {
		t.Errorf("conflicts = %v, want one", w.conflicts)
	}
}

func TestMetricsAreRead(t *testing.T) {
	m, err := parseMetrics(strings.NewReader(`# HELP x y
# TYPE x counter
shardway_queued_requests_total{reason="moving"} 3
shardway_queued_requests_total{reason="no-lease"} 4
shardway_epoch 1.7e+01
`))
	if err != nil {
		t.Fatal(err)
	}
	if m.Sum("shardway_queued_requests_total") != 7 || m.Sum("shardway_queued_requests_total", `reason="moving"`) != 3 ||
		m.Sum("shardway_epoch") != 17 || m.Has("shardway") || !m.Has("shardway_epoch") {
		t.Errorf("metrics = %v", m)
	}
	if _, err := parseMetrics(strings.NewReader("a b")); err == nil {
		t.Error("nonsense was read")
	}
}
