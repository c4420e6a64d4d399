package findings

import (
	"context"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardway/diagnosis"
	"shardway/peer"
)

// Without a leader, a node dials each other voter at most once a second, however often findings are evaluated, and never twice at the same
// time. A voter counts as present as long as the dials succeed.
func TestVotersAreProbedNoMoreThanOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		dialled := map[string]int{}
		port := peer.New(peer.Options{Node: "a", Disk: "d", Lookup: func(node string) (string, bool) {
			mu.Lock()
			defer mu.Unlock()
			dialled[node]++
			return "", false
		}})
		m := New(Options{Port: port})
		ctx, cancel := context.WithCancel(t.Context())
		defer m.background.Wait()
		defer cancel()
		m.probes.reached["b"] = true
		nodes := []diagnosis.Node{{ID: "a", Voter: true}, {ID: "b", Voter: true}, {ID: "c", Voter: true}, {ID: "d"}}
		for range 40 { // 12 s
			m.probeVoters(ctx, diagnosis.Inputs{Self: "a", Nodes: nodes})
			time.Sleep(300 * time.Millisecond)
		}
		mu.Lock()
		defer mu.Unlock()
		if want := map[string]int{"b": 10, "c": 10}; !maps.Equal(dialled, want) {
			t.Errorf("dialled in 12 s: %v, want %v", dialled, want)
		}
		m.probes.Lock()
		defer m.probes.Unlock()
		if m.probes.reached["b"] || m.probes.reached["c"] {
			t.Errorf("reached: %v, want nobody", m.probes.reached)
		}
	})
}
