package findings

import (
	"github.com/prometheus/client_golang/prometheus"

	"shardway/diagnosis"
)

// gauge exports the number of findings for each code, and the state of the cluster. It also exports 0, so that an alert can
// distinguish a node without findings from a node that exports nothing.
type gauge struct {
	monitor      *Monitor
	desc         *prometheus.Desc
	clusterState *prometheus.Desc
}

var _ prometheus.Collector = (*gauge)(nil)

// NewCollector returns a collector of the number of findings for each code, and of the state of the cluster.
func NewCollector(m *Monitor) prometheus.Collector {
	return &gauge{
		monitor:      m,
		desc:         prometheus.NewDesc("shardway_finding", "1 if this node reports a finding of this code, 0 if not.", []string{"code"}, nil),
		clusterState: prometheus.NewDesc("shardway_cluster_state", "1 if the cluster has this state as this node sees it, 0 if not.", []string{"state"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (g *gauge) Describe(c chan<- *prometheus.Desc) {
	c <- g.desc
	c <- g.clusterState
}

// Collect implements prometheus.Collector. It sends one gauge for each code and each state.
func (g *gauge) Collect(c chan<- prometheus.Metric) {
	counts := map[diagnosis.Code]int{}
	for _, f := range g.monitor.Result().Findings {
		counts[f.Code]++
	}
	for _, code := range diagnosis.Codes() {
		c <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(counts[code]), string(code))
	}
	current := g.monitor.Result().ClusterState
	for _, state := range diagnosis.ClusterStates() {
		value := 0.0
		if state == current {
			value = 1
		}
		c <- prometheus.MustNewConstMetric(g.clusterState, prometheus.GaugeValue, value, state.String())
	}
}
