//go:build linux

package main

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"shardway/e2e/kit/history"
	"shardway/e2e/kit/linear"
	"shardway/e2e/kit/load"
)

// TestClientsReadTheEffectOfASecondOwner runs clients, apps, their store and the linearizability
// checker; the test acts as the nodes. The checker must find an owner that continues after the
// next owner has started, or that shares an epoch with it. It must accept a handover.
func TestClientsReadTheEffectOfASecondOwner(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps string // app, epoch, mode, and the written value
		want  string // part of the error; empty means that the history is linearizable
		fence int    // number of rejected operations
	}{
		{"handover and back", "a5m=one a5m b6m b6m=two b6s a7m a7m=three a7m a7s b8m", "", 0},
		{"both modes on one key", "a5m a5s=one a5m a5m=two a5s a5m=three a5m", "", 0},
		{"stale epoch in memory", "a5m=one b6m=two a5m", "before and after the other", 0},
		{"stale epoch at the store", "a5m=one b6m=two a5s a5s=three a5m=four b6m b6s", "", 3},
		{"same epoch twice", "a5m=one b5m a5m=two b5m", "before and after the other", 0},
		{"same epoch twice, both write", "a5m=one b5m=two a5s a5m", "before and after the other", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			registerStore, apps := newAppsWithStore(t, "a", "b")
			at := make(map[string]string)
			clients := load.NewClient(nil, nil)
			defer clients.Close()
			for _, a := range apps {
				srv := httptest.NewServer(a)
				defer srv.Close()
				at[a.name] = strings.TrimPrefix(srv.URL, "http://")
			}
			var responses []history.Response
			for i, step := range strings.Fields(c.steps) {
				req := stepRequest(step)
				req.ID = fmt.Sprintf("%d-%s", i, step)
				responses = append(responses, clients.DoAt(t.Context(), at[step[:1]], req))
			}
			var runs []history.Run
			for _, a := range apps {
				a.mu.Lock()
				runs = append(runs, a.runs...)
				a.mu.Unlock()
			}
			ops := linear.Ops(responses, runs)
			if len(ops) != len(responses) || len(runs) != len(responses) {
				t.Fatalf("%d operations and %d runs of %d responses", len(ops), len(runs), len(responses))
			}
			fenced := 0
			for i, op := range ops {
				if op.Outcome == linear.Refused {
					fenced++
				} else if op.Outcome != linear.Known {
					t.Errorf("%v: %+v", op, responses[i])
				}
			}
			if fenced != c.fence || registerStore.FencedCount() != c.fence {
				t.Errorf("%d operations and %d calls of the store were fenced, want %d", fenced, registerStore.FencedCount(), c.fence)
			}
			err := linear.Check(ops, linear.Options{Applied: registerStore.Applied()})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Check = %v, want %q", err, c.want)
			}
		})
	}
}

// stepRequest returns the request that a node sends for a step: "b6m=two" writes "two" to the
// memory register of app b in epoch 6.
func stepRequest(step string) load.Request {
	step, value, write := strings.Cut(step, "=")
	req := load.Request{Key: "alice", Header: map[string]string{
		"Shardway-Shard": "7", "Shardway-Epoch": step[1:2], "Shardway-Node": step[:1], "Shardway-Key": "alice",
		"App-Register": map[byte]string{'m': "memory", 's': "store"}[step[2]],
	}}
	if write {
		req.Method, req.Body = "POST", []byte(value)
	}
	return req
}
