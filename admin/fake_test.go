package admin_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
	"shardway/diagnosis"
	"shardway/shardmap"
)

// fake is a Cluster with three nodes and a map of two shards that the test can replace.
type fake struct {
	mu struct {
		sync.Mutex
		epoch   uint64
		changed chan struct{}
		did     []api.Action
		broke   []api.SocketBreak
	}
	waiting  chan uint64 // one value for each WaitMap that begins; nil: not reported
	notReady error
	refuse   error
	panics   bool
	idle     map[string]string // reason why an owner does not serve
}

var _ api.Cluster = (*fake)(nil)

func newFake() *fake {
	f := &fake{idle: map[string]string{"": "it is orphaned"}}
	f.mu.epoch = 17
	f.mu.changed = make(chan struct{})
	return f
}

func (f *fake) Ready() error { return f.notReady }

func (f *fake) Idle(owner string) string { return f.idle[owner] }

func (f *fake) Policy() api.Policy {
	return api.Policy{Drained: []string{"n3"}, Pause: "30m", Since: 9}
}

func (f *fake) Status() api.Status {
	if f.panics {
		panic("broken")
	}
	since, lease := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), int64(431)
	return api.Status{
		ClusterState: "degraded", ClusterReason: "1 of 4 shards is unavailable", LeaderSince: &since, LeaderLeaseMS: &lease,
		Node: "n1", Boot: 4, Cluster: "c0ffee", Version: "1.2.3", State: "rebalancing", Role: "leader", Leader: "n1",
		Term: 3, Epoch: f.epoch(), Proposed: 18, LeaseMS: 412, UptimeS: 3700,
		Shards: api.ShardCounts{Total: 4, Owned: 2, Held: 1, Moving: 1, Orphaned: 1, Unavailable: 1},
		Findings: []diagnosis.Finding{{
			Code: diagnosis.Unavailable, Severity: diagnosis.Outage, Text: "1 of 4 shards has no <owner>", Remedy: "see to what is said beside this", Brief: "brief", Subject: "subject",
		}},
		Queue:   api.QueueCounts{Queued: 5, Bytes: 1024},
		Sockets: api.SocketCounts{App: 4, Attached: 3, Detached: 1, Streams: 2},
		Nodes: []api.Node{
			{
				ID: "n1", State: "active", Role: "leader", Voter: true, Weight: 1, Zone: "east", Region: "eu", Roles: []string{"app", "db"}, Meta: map[string]string{"rack": "r7"}, Version: "1.2.3", AppVersion: "2.1", Shards: 2,
				Endpoints: map[string]string{"http": "127.0.0.1:8080", "admin": "127.0.0.1:8081"}, App: "healthy",
			},
			{ID: "n2<script>", State: "joining", Role: "gateway", Roles: []string{}, Meta: map[string]string{}, Endpoints: map[string]string{}, App: "none", LastHeartbeatMS: -1},
		},
	}
}

func (f *fake) Shards() api.ShardList {
	return api.ShardList{Epoch: f.epoch(), Proposed: 18, Total: 4, Shards: []api.Shard{
		{Shard: 0, State: api.ShardOwned, Owner: "n1", Epoch: 9},
		{Shard: 1, State: api.ShardMoving, Owner: "n1", Epoch: 9, To: "n2"},
		{Shard: 2, State: api.ShardOwned, Owner: "n2", Epoch: 17},
		{Shard: 3, State: api.ShardOrphaned},
	}}
}

func (f *fake) Moves(shard uint32) []api.Move {
	if shard != 1 {
		return nil
	}
	return []api.Move{{Epoch: 5, Shard: 1, To: "n2", Reason: "join"}, {Epoch: 9, Shard: 1, From: "n2", To: "n1", Reason: "crashed"}}
}

func (f *fake) Hot(context.Context) api.HotList {
	return api.HotList{
		Shards: []api.HotShard{{Shard: 1, Node: "n1", Instance: 2, Requests: 12.5, Busy: 0.5, Bytes: 2000, Sockets: 3}},
		Keys:   []api.HotKey{{Shard: 1, Node: "n1", Instance: 2, Hash: "0123456789abcdef", Requests: 12.5}}, Limited: []api.HotKey{{Shard: 1, Hash: "0123456789abcdef", Requests: 2.5}},
		Unresponsive: []string{"n2"},
	}
}

func (f *fake) Sockets(context.Context) api.SocketList {
	return api.SocketList{
		Shards: []api.ShardSockets{{Shard: 1, Attached: 3, Detached: 1, Plain: 2}},
		Nodes:  []api.NodeSockets{{Node: "n1", Attached: 3, Detached: 1}, {Node: "n3", App: 5}}, Unresponsive: []string{"n2"},
	}
}

func (f *fake) BreakSockets(_ context.Context, b api.SocketBreak, _ string) api.BrokenSockets {
	if b.Shard != nil && *b.Shard != 1 {
		return api.BrokenSockets{Unresponsive: []string{"n2"}}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.broke = append(f.mu.broke, b)
	return api.BrokenSockets{Sockets: 3, Nodes: map[string]int{"n1": 3}}
}

func (f *fake) Checkup(_ context.Context, reach bool) diagnosis.Checkup {
	c := diagnosis.Checkup{From: "n1", Unresponsive: []string{"n3"}, AskedNS: 1, AnsweredNS: 2, Reports: []diagnosis.Report{{Node: "n1", Version: "1.2.3"}}}
	if reach {
		c.Reports[0].UnreachablePorts = []diagnosis.UnreachablePort{{Node: "n2", Port: "peer", Addr: "10.0.0.2:7947", Why: "refused"}}
	}
	return c
}

func (f *fake) Processes() api.ProcessList {
	at := time.Unix(1_700_000_000, 0).UTC()
	return api.ProcessList{
		Node: "n1", Max: 200,
		Processes: []api.Process{{Shard: 1, Epoch: 9, KeyHash: "00000000000000ab", State: "ready", PID: 4711, Addr: "127.0.0.1:24118", Dir: "/srv/key-a", StartedAt: &at, IdleMS: 1200}},
		Failing:   []api.FailingProcess{{Shard: 2, KeyHash: "00000000000000ac", Failures: 3, Error: "exit status 1"}},
	}
}

func (f *fake) Running(context.Context) api.RunningList {
	return api.RunningList{
		Nodes:        []api.Running{{Node: "n1", Version: "1.2.3", LeaseMS: 412, Requests: 7, Sockets: 3, Queued: 5, Held: 1}, {Node: "n3", LeaseMS: -1, Queued: -1}},
		Unresponsive: []string{"n2"},
	}
}

func (f *fake) Endpoints() []api.Endpoint {
	return []api.Endpoint{
		{Node: "db", Kind: api.KindMember, Name: "sql", Addr: "10.0.0.9:5432"},
		{Node: "n1", Kind: api.KindNode, Name: "admin", Addr: "127.0.0.1:8081"},
		{Node: "n1", Kind: api.KindNode, Name: "http", Addr: "127.0.0.1:8080"},
	}
}

func (f *fake) Map() api.Map {
	return api.Map{
		Epoch: f.epoch(), Shards: 4, Owners: []int{0, 0, 1, -1},
		Nodes: []api.MapNode{{ID: "n1", HTTP: "127.0.0.1:8080"}, {ID: "n2", HTTP: "127.0.0.1:8090"}},
	}
}

// Backup returns four bytes that are not text.
func (f *fake) Backup() ([]byte, error) { return []byte{0, 1, 0xfe, 0xff}, nil }

func (f *fake) WaitMap(ctx context.Context, after uint64) {
	if f.waiting != nil {
		f.waiting <- after
	}
	for {
		f.mu.Lock()
		epoch, changed := f.mu.epoch, f.mu.changed
		f.mu.Unlock()
		if epoch > after {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (f *fake) Do(_ context.Context, a api.Action) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.did = append(f.mu.did, a)
	return f.refuse
}

func (f *fake) epoch() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.epoch
}

func (f *fake) commit(epoch uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.epoch = epoch
	close(f.mu.changed)
	f.mu.changed = make(chan struct{})
}

func (f *fake) actions() []api.Action {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.did
}

// keyOf returns a key of a shard of the fake's map.
func keyOf(s shardmap.Shard) string {
	for key := "k"; ; key += "k" {
		if shardmap.ShardOf(key, 4) == s {
			return key
		}
	}
}

func handlerOf(c api.Cluster) http.Handler {
	return admin.New(admin.Options{API: apitest.SetOf(c), Log: zerolog.Nop()}).Handler()
}

// fetchJSON sends one request to the handler. headers contains alternating names and values.
func fetchJSON(t *testing.T, h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:8081"
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func (f *fake) Services(context.Context) api.ServiceList {
	return api.ServiceList{Epoch: f.epoch(), Services: []api.Service{{MapService: api.MapService{Name: "default", Shards: 4}, Configured: true, Nodes: []string{"n1", "n2"}, Owners: map[string]int{"n1": 2, "n2": 1}, Moving: 1, Orphaned: 1}}}
}

func (f *fake) Joins() api.JoinList {
	return api.JoinList{Approval: "manual", Timeout: "1h", Joins: []api.NodeJoin{
		{Node: "n4", Server: "n4/d", Stage: "accepted", Ticket: 17, EffectiveIndex: 19, Reason: "new hardware", Stages: []api.JoinStage{{Stage: "requested", At: "2026-11-30T12:00:00Z", MS: 1500}, {Stage: "accepted", At: "2026-11-30T12:00:01.5Z"}}},
	}}
}

func (f *fake) ServiceOf(string, string) (string, error) { return "", nil }
