package node

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shardway/ack/leader"
	"shardway/internal/clock"
	"shardway/internal/servicelabel"
	"shardway/node/adminapi"
	"shardway/node/apphealth"
	"shardway/node/cluster"
	"shardway/node/consensus"
	"shardway/node/idleshards"
	"shardway/node/leaderloop"
	"shardway/node/router"
	"shardway/proxy/upstream"
	"shardway/shardmap"
)

// gauges collects the gauges of a node at each scrape. It sends no request to another node.
type gauges struct {
	self         shardmap.NodeID
	clock        clock.Clock
	view         *cluster.View
	router       *router.Router
	health       *apphealth.Group // nil for a gateway
	agent        *agent
	idleTracker  *idleshards.Tracker
	leaderClient *leaderloop.Client
	api          *adminapi.API
	services     map[string]upstream.InstanceBits // app instances of each service; nil without services
}

var (
	_ prometheus.Collector = gauges{}

	descNodes = prometheus.NewDesc("shardway_nodes",
		"Number of nodes by state, as this node sees it; only a leader knows missed heartbeats.", []string{"state"}, nil)
	descVoters = prometheus.NewDesc("shardway_voters",
		"Number of voters in Raft.", nil, nil)
	descFailureTolerance = prometheus.NewDesc("shardway_failure_tolerance",
		"Number of further voters that may fail: reachable voters less a quorum; negative without a quorum.", nil, nil)
	descTerm = prometheus.NewDesc("shardway_raft_term",
		"Number of the current Raft term at this node.", nil, nil)
	descLeaderLease = prometheus.NewDesc("shardway_leader_lease_seconds",
		"Time for which this node may still grant leases as leader unless a quorum confirms it; 0 if it does not lead.", nil, nil)
	descApp = servicelabel.NewDesc("shardway_app_healthy",
		"1 if the app passes its health checks, 0 if not; a gateway has none.")
	descInstanceShards = servicelabel.NewDesc("shardway_app_instance_shards_owned",
		"Number of shards of an app instance of this node in the committed map; only with several instances.", labelInstance)
	descInstanceHealthy = servicelabel.NewDesc("shardway_app_instance_healthy",
		"1 if an app instance of this node passes its health checks, 0 if not; only with several instances.", labelInstance)
	descRunning = prometheus.NewDesc("shardway_requests_in_flight",
		"Number of requests that the app of this node is serving, upgraded connections included.", nil, nil)
	descLogLag = prometheus.NewDesc("shardway_log_lag_entries",
		"Number of log entries that this node has and has not applied.", nil, nil)
	descMapLag = prometheus.NewDesc("shardway_map_lag_seconds",
		"Time since this node has lacked a map that the leader announced; 0 if it lacks none.", nil, nil)
	descHeld = prometheus.NewDesc("shardway_held_shards",
		"Number of shards of this node that its app holds (Shardway-Hold).", nil, nil)
	descDrain = prometheus.NewDesc("shardway_drain_shards",
		"Number of shards that still move away because this node drains or stops.", nil, nil)
)

// Describe implements prometheus.Collector.
func (g gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{descNodes, descVoters, descFailureTolerance, descTerm, descLeaderLease, descApp.For(g.hasServices()), descInstanceShards.For(g.hasServices()), descInstanceHealthy.For(g.hasServices()), descRunning, descLogLag, descMapLag, descHeld, descDrain} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	nodesByState := g.countNodes()
	for _, state := range nodeStates() {
		gauge(descNodes, float64(nodesByState[state]), state)
	}
	voters, _ := g.view.Servers()
	gauge(descVoters, float64(len(voters)))
	if len(voters) > 0 {
		quorum := len(voters)/2 + 1
		gauge(descFailureTolerance, float64(g.countReachable(voters)-quorum))
	}
	gauge(descTerm, float64(g.view.Raft.Term()))
	gauge(descLeaderLease, g.leaderLease().Seconds())
	if g.health != nil {
		g.collectApps(gauge)
		g.collectInstances(gauge)
	}
	gauge(descRunning, float64(g.router.InFlight.Total()))
	gauge(descLogLag, float64(g.view.Raft.Lag()))
	gauge(descMapLag, g.agent.mapLag(g.clock.Precise()).Seconds())
	gauge(descHeld, float64(g.idleTracker.HeldCount()))
	gauge(descDrain, float64(g.countDrainingShards()))
}

// labelInstance is the label with the number of an app instance. Prometheus itself uses the label instance for
// the address of the node.
const labelInstance = "app_instance"

// hasServices reports whether the configuration of the node has services.
func (g gauges) hasServices() bool { return g.services != nil }

// serviceOf returns the service that an app instance runs.
func (g gauges) serviceOf(instance int) string {
	for name, instances := range g.services {
		if instances.Has(uint8(instance)) {
			return name
		}
	}
	return ""
}

// collectApps collects the health of the app, or of the app of each service that this node runs.
func (g gauges) collectApps(gauge func(desc *prometheus.Desc, value float64, labels ...string)) {
	if !g.hasServices() {
		gauge(descApp.For(false), boolGauge(g.health.Healthy()))
		return
	}
	for service, isHealthy := range healthyServices(g.services, g.health.IsHealthy) {
		gauge(descApp.For(true), boolGauge(isHealthy), service)
	}
}

// healthyServices returns, for each service that this node runs, whether one of its app instances is healthy. It
// omits services whose requests this node only forwards.
func healthyServices(services map[string]upstream.InstanceBits, isHealthy func(instance int) bool) map[string]bool {
	healthy := map[string]bool{}
	for service, instances := range services {
		for i := range shardmap.MaxInstances {
			if instances.Has(uint8(i)) {
				healthy[service] = healthy[service] || isHealthy(i)
			}
		}
	}
	return healthy
}

// collectInstances collects the gauges of each app instance, unless the node has one instance.
func (g gauges) collectInstances(gauge func(desc *prometheus.Desc, value float64, labels ...string)) {
	if g.health.Len() < 2 {
		return
	}
	committed := g.router.State().Committed()
	for i := range g.health.Len() {
		instance := shardmap.Instance(i)
		if g.health.At(i) == nil {
			continue // the instance is no longer configured
		}
		labels := []string{strconv.Itoa(instance.Number())}
		if g.hasServices() {
			labels = append(labels, g.serviceOf(i))
		}
		gauge(descInstanceShards.For(g.hasServices()), float64(committed.InstanceCount(g.self, instance)), labels...)
		gauge(descInstanceHealthy.For(g.hasServices()), boolGauge(g.health.IsHealthy(i)), labels...)
	}
}

// leaderLease returns how long this node may still grant leases as leader; zero if it does not lead.
func (g gauges) leaderLease() time.Duration {
	leadership := g.leaderClient.Leadership()
	if leadership == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaderloop.ViewTimeout)
	defer cancel()
	state, _ := leadership.State(ctx)
	return state.LeaseLeft
}

// countReachable returns how many of the voters are this node, or alive according to gossip.
func (g gauges) countReachable(voters []string) int {
	reachable := 0
	for _, voter := range voters {
		if id := consensus.NodeOf(voter); id == string(g.self) || g.view.IsAlive(id) {
			reachable++
		}
	}
	return reachable
}

// countDrainingShards returns the number of shards that still move away because this node drains or stops.
func (g gauges) countDrainingShards() int {
	if g.agent.isLeaving.Load() || g.view.IsDrained() {
		return g.router.State().Committed().ShardCount(g.self)
	}
	return 0
}

// countNodes returns the number of nodes in each state. If this node leads, the leader loop supplies its
// view of the nodes; other nodes use only gossip, Raft's configuration and the map.
func (g gauges) countNodes() map[string]int {
	var views []leader.MemberView
	if leadership := g.leaderClient.Leadership(); leadership != nil {
		ctx, cancel := context.WithTimeout(context.Background(), leaderloop.ViewTimeout)
		views, _ = leadership.View(ctx)
		cancel()
	}
	nodesByState := map[string]int{}
	for _, node := range g.api.Nodes(g.router.State(), views) {
		nodesByState[node.State]++
	}
	return nodesByState
}

// boolGauge returns the value of a gauge for a boolean.
func boolGauge(isTrue bool) float64 {
	if isTrue {
		return 1
	}
	return 0
}

// mapLag returns how long this node has lacked a shard map that the leader has reported. Zero means that it
// lacks none.
func (a *agent) mapLag(now time.Duration) time.Duration {
	since := time.Duration(a.missingMapSince.Load())
	if since == 0 {
		return 0
	}
	return max(now-since, 0)
}

// recordLeaderEpoch records whether this node lacks the map with the given epoch, which the leader has reported.
func (a *agent) recordLeaderEpoch(epoch shardmap.Epoch, now time.Duration) {
	lacksMap := epoch > a.newestState().Proposed().Epoch()
	if !lacksMap {
		a.missingMapSince.Store(0)
	} else if a.missingMapSince.Load() == 0 {
		a.missingMapSince.Store(int64(now))
	}
}

// nodeStates returns all values of api.Node.State.
func nodeStates() []string {
	return []string{"joining", "active", "unhealthy", "draining", "drained", "cordoned", "restarting", "suspect", "failed", "left"}
}
