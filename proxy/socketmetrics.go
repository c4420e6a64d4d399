package proxy

import (
	"github.com/prometheus/client_golang/prometheus"
)

var (
	descKept = prometheus.NewDesc("shardway_kept_sockets",
		"Kept WebSockets whose clients are connected here now, by whether they have a leg.", []string{"state"}, nil)
	descLegs = prometheus.NewDesc("shardway_socket_legs_total",
		"Legs of kept WebSockets that began, by what they followed.", []string{"by"}, nil)
	descLegEnds = prometheus.NewDesc("shardway_socket_leg_ends_total",
		"Legs of kept WebSockets that are over, by what became of the socket.", []string{"end"}, nil)
	descHandover = prometheus.NewDesc("shardway_socket_handover_duration_seconds",
		"Time from when a leg was asked to hand over, or broke, until the next one began.", []string{"by"}, nil)
	descSocketResumptions = prometheus.NewDesc("shardway_socket_resumptions_total",
		"Kept WebSockets that were without a leg, by what came of it.", []string{"result"}, nil)
)

func socketDescs() []*prometheus.Desc {
	return []*prometheus.Desc{descKept, descLegs, descLegEnds, descHandover, descSocketResumptions}
}

// collectSockets sends the metrics of kept sockets.
func (s *Server) collectSockets(ch chan<- prometheus.Metric, count func(d *prometheus.Desc, v float64, labels ...string)) {
	attached, detached := 0, 0
	for _, x := range s.KeptSockets() {
		attached += x.Attached
		detached += x.Detached
	}
	for i, n := range []int{attached, detached} {
		state := socketState(i + 1)
		ch <- prometheus.MustNewConstMetric(descKept, prometheus.GaugeValue, float64(n), state.String())
	}
	m := s.metrics
	for i := range m.legs {
		count(descLegs, float64(m.legs[i].Load()), legByNames[i])
		if x := m.handovers[i].metric(descHandover, m.since, legByNames[i]); x != nil {
			ch <- x
		}
	}
	for i := range m.legEnds {
		count(descLegEnds, float64(m.legEnds[i].Load()), legEndNames[i])
	}
	for i := range m.sockets {
		count(descSocketResumptions, float64(m.sockets[i].Load()), socketEndNames[i])
	}
}
