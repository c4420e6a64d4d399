package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"shardway/ack"
	"shardway/proxy/upstream"
	"shardway/shardmap"
)

// stateWithServices returns the state of a cluster with the services chat (3 shards) and search (2 shards). Node a owns
// the shards of chat, and no node has run search.
func stateWithServices(t *testing.T) *ack.State {
	t.Helper()
	state := ack.NewState()
	apply := func(entry []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		next, outcome, err := state.Apply(state.Index()+1, 1, entry)
		if err != nil || outcome == ack.OutcomeIgnored {
			t.Fatalf("outcome %d, %v", outcome, err)
		}
		state = next
	}
	apply(ack.EncodeBootstrap("c1", 5, ack.DefaultTiming(), ack.ServiceSpec{Name: "chat", Shards: 3}, ack.ServiceSpec{Name: "search", Shards: 2}), nil)
	runs := map[shardmap.NodeID]shardmap.InstanceSet{"a": 0}
	policy := shardmap.Policy{Services: []shardmap.Service{{First: 0, Count: 3, Instances: runs}, {First: 3, Count: 2}}}
	want := shardmap.Assign(state.Committed(), []shardmap.Member{{ID: "a"}}, policy)
	apply(ack.EncodeProposal(state.FormatVersion(), ack.ProposalEntry{Term: 1, Base: state.Committed().Epoch(), Want: want}))
	proposed := state.Proposed()
	apply(ack.EncodeCommit(state.FormatVersion(), ack.CommitEntry{Epoch: proposed.Epoch(), Digest: proposed.Digest()}), nil)
	return state
}

// seriesOf returns the series of a collector, as name{label="value"} value.
func seriesOf(t *testing.T, collectors ...prometheus.Collector) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	for _, c := range collectors {
		if err := registry.Register(c); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			all = append(all, fmt.Sprintf("%s{%s} %v", family.GetName(), labelText(metric), metric.GetGauge().GetValue()))
		}
	}
	return all
}

func labelText(metric *dto.Metric) string {
	var labels []string
	for _, label := range metric.GetLabel() {
		labels = append(labels, fmt.Sprintf("%s=%q", label.GetName(), label.GetValue()))
	}
	return strings.Join(labels, ",")
}

// The numbers of shards have the label service only if the configuration has services. The service search has not started, so
// none of its shards is orphaned.
func TestShardMetricsByService(t *testing.T) {
	t.Parallel()
	state := stateWithServices(t)
	collector := shardGauges{self: "a", shards: 5, state: func() *ack.State { return state }}
	want := []string{"shardway_shards{} 5", "shardway_shards_moving{} 0", "shardway_shards_orphaned{} 0", "shardway_shards_owned{} 3"}
	if got := seriesOf(t, collector); !slices.Equal(got, want) {
		t.Errorf("without services: %q, want %q", got, want)
	}
	collector.hasServices = true
	want = []string{
		`shardway_shards{service="chat"} 3`, `shardway_shards{service="search"} 2`, `shardway_shards_moving{service="chat"} 0`, `shardway_shards_moving{service="search"} 0`,
		`shardway_shards_orphaned{service="chat"} 0`, `shardway_shards_orphaned{service="search"} 0`, `shardway_shards_owned{service="chat"} 3`, `shardway_shards_owned{service="search"} 0`,
	}
	if got := seriesOf(t, collector); !slices.Equal(got, want) {
		t.Errorf("with services: %q, want %q", got, want)
	}
}

// A service is healthy if one of its app instances is. Services that the node only forwards have no value.
func TestAppMetricsByService(t *testing.T) {
	t.Parallel()
	services := map[string]upstream.InstanceBits{"chat": upstream.InstanceBits(0).With(0).With(1), "search": upstream.InstanceBits(0).With(2), "mail": 0}
	for instance, want := range []map[string]bool{{"chat": true, "search": false}, {"chat": true, "search": false}, {"chat": false, "search": true}} {
		if got := healthyServices(services, func(i int) bool { return i == instance }); !maps.Equal(got, want) {
			t.Errorf("instance %d is healthy: %v, want %v", instance+1, got, want)
		}
	}
	g := gauges{services: services}
	for instance, want := range []string{"chat", "chat", "search", ""} {
		if got := g.serviceOf(instance); got != want {
			t.Errorf("instance %d runs %q, want %q", instance+1, got, want)
		}
	}
}

// A removed service counts neither in the metrics of a node without services nor in those of a node with services.
func TestMetricsOmitRemovedServices(t *testing.T) {
	state := stateWithServices(t)
	entry := ack.EncodePolicyChange(state.FormatVersion(), ack.PolicyEntry{Term: 1, Changes: []ack.Change{{Kind: ack.ChangeRemoveService, Service: "search"}}})
	state, outcome, err := state.Apply(state.Index()+1, 1, entry)
	if err != nil || outcome != ack.OutcomePolicyChanged {
		t.Fatalf("outcome %d, %v", outcome, err)
	}
	for _, hasServices := range []bool{false, true} {
		series := seriesOf(t, shardGauges{self: "a", shards: 3, state: func() *ack.State { return state }, hasServices: hasServices})
		for _, line := range series {
			name, value, _ := strings.Cut(line, "} ")
			isTotal := strings.HasPrefix(name, "shardway_shards{") || strings.HasPrefix(name, "shardway_shards_owned")
			if want := map[bool]string{true: "3", false: "0"}[isTotal]; value != want || strings.Contains(name, "search") {
				t.Errorf("%s, want %s", line, want)
			}
		}
	}
}
