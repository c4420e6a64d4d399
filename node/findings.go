package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"shardway/diagnosis"
)

// findingGauge tells of each code how many findings there are: 0 too, so that an alert
// can tell none from a node that does not say.
type findingGauge struct {
	n    *Node
	desc *prometheus.Desc
}

var _ prometheus.Collector = (*findingGauge)(nil)

func newFindingGauge(n *Node) *findingGauge {
	return &findingGauge{n, prometheus.NewDesc("shardway_finding", "1 if this node reports a finding of this code, 0 if not.", []string{"code"}, nil)}
}

// Describe tells what Collect sends.
func (g *findingGauge) Describe(c chan<- *prometheus.Desc) { c <- g.desc }

// Collect sends one gauge for each code.
func (g *findingGauge) Collect(c chan<- prometheus.Metric) {
	counts := map[diagnosis.Code]int{}
	for _, f := range g.n.Findings() {
		counts[f.Code]++
	}
	for _, code := range diagnosis.Codes() {
		c <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(counts[code]), string(code))
	}
}
