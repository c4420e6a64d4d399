package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"shardway/ack"
	"shardway/internal/servicelabel"
	"shardway/node/adminapi"
	"shardway/shardmap"
)

// shardGauges collects the numbers of shards at each scrape: of the cluster, or of each service if the
// configuration of the node has services.
type shardGauges struct {
	self        shardmap.NodeID
	shards      int // number of shards of a cluster without services
	state       func() *ack.State
	hasServices bool
}

var (
	_ prometheus.Collector = shardGauges{}

	descShards         = servicelabel.NewDesc("shardway_shards", "Number of shards of the cluster.")
	descShardsOwned    = servicelabel.NewDesc("shardway_shards_owned", "Number of shards that this node owns in the committed map.")
	descShardsMoving   = servicelabel.NewDesc("shardway_shards_moving", "Number of shards that an open proposal moves.")
	descShardsOrphaned = servicelabel.NewDesc("shardway_shards_orphaned", "Number of shards without an owner, of services that have started.")
)

// Describe implements prometheus.Collector.
func (g shardGauges) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []servicelabel.Desc{descShards, descShardsOwned, descShardsMoving, descShardsOrphaned} {
		ch <- desc.For(g.hasServices)
	}
}

// Collect implements prometheus.Collector.
func (g shardGauges) Collect(ch chan<- prometheus.Metric) {
	gauge := func(desc servicelabel.Desc, value int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc.For(g.hasServices), prometheus.GaugeValue, float64(value), labels...)
	}
	state := g.state()
	if !g.hasServices {
		total := g.shards
		if state.Bootstrapped() {
			total = state.ServiceShards()
		}
		gauge(descShards, total)
		gauge(descShardsOwned, state.Committed().ShardCount(g.self))
		gauge(descShardsMoving, adminapi.MovingShards(state))
		gauge(descShardsOrphaned, state.OrphanCount())
		return
	}
	for _, service := range state.Services() {
		owned, moving, orphaned := countShards(state, service, g.self)
		gauge(descShards, service.Shards, service.Name)
		gauge(descShardsOwned, owned, service.Name)
		gauge(descShardsMoving, moving, service.Name)
		gauge(descShardsOrphaned, orphaned, service.Name)
	}
}

// countShards counts the shards of a service: those of the node, those that an open proposal moves, and those without
// an owner, if the service has started.
func countShards(state *ack.State, service ack.Service, self shardmap.NodeID) (owned, moving, orphaned int) {
	committed := state.Committed()
	for i := range service.Shards {
		if committed.Owner(service.First+shardmap.Shard(i)) == self {
			owned++
		}
	}
	orphaned = state.OrphansOf(service)
	if !state.HasOpenProposal() {
		return owned, 0, orphaned
	}
	for _, move := range shardmap.Diff(committed, state.Proposed()) {
		if service.Contains(move.Shard) {
			moving++
		}
	}
	return owned, moving, orphaned
}
