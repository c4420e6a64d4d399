package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"shardway/diagnosis"
)

// findingGauge exports the number of findings for each code. It also exports 0, so that an alert can
// distinguish a node without findings from a node that exports nothing.
type findingGauge struct {
	n    *Node
	desc *prometheus.Desc
}

var _ prometheus.Collector = (*findingGauge)(nil)

// newFindingGauge returns the collector for the findings of n.
func newFindingGauge(n *Node) *findingGauge {
	return &findingGauge{n, prometheus.NewDesc("shardway_finding", "1 if this node reports a finding of this code, 0 if not.", []string{"code"}, nil)}
}

// Describe implements prometheus.Collector.
func (g *findingGauge) Describe(c chan<- *prometheus.Desc) { c <- g.desc }

// Collect implements prometheus.Collector. It sends one gauge for each code.
func (g *findingGauge) Collect(c chan<- prometheus.Metric) {
	counts := map[diagnosis.Code]int{}
	for _, f := range g.n.Findings() {
		counts[f.Code]++
	}
	for _, code := range diagnosis.Codes() {
		c <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(counts[code]), string(code))
	}
}
