package node_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"shardway/admin/api"
)

// gathered returns the metrics of a node, by name.
func (p *process) gathered() map[string][]*dto.Metric {
	p.w.t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := p.node.Register(r); err != nil {
		p.w.t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		p.w.t.Fatal(err)
	}
	all := map[string][]*dto.Metric{}
	for _, f := range families {
		all[f.GetName()] = f.GetMetric()
	}
	return all
}

// value returns the value of a gauge or counter, or the count of a histogram, of the first metric that has a label of the value of.
func value(all map[string][]*dto.Metric, name, of string) float64 {
	for _, m := range all[name] {
		if of == "" {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
		for _, l := range m.GetLabel() {
			if l.GetValue() == of {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}

// The metrics of a leader show the state of the cluster. No label contains a blank, which every query would have to quote, and histograms
// are available in both formats.
func TestMetricsShowClusterState(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		l := w.leader()
		p := w.follower()
		all := l.gathered()
		for _, x := range []struct {
			name, of string
			want     float64
		}{
			{"shardway_nodes", "active", 3},
			{"shardway_nodes", "failed", 0},
			{"shardway_voters", "", 3},
			{"shardway_failure_tolerance", "", 1},
			{"shardway_app_healthy", "", 1},
			{"shardway_raft_term", "", float64(l.node.API().Status().Term)},
			{"shardway_requests_in_flight", "", 0},
			{"shardway_map_lag_seconds", "", 0},
			{"shardway_drain_shards", "", 0},
			{"shardway_shards", "", float64(l.node.API().Status().Shards.Total)},
			{"shardway_map_change_in_progress", "", 0},
			{"shardway_join_duration_seconds", "", 1},
			{"shardway_acquire_failures_total", "", 0},
		} {
			if got := value(all, x.name, x.of); got != x.want {
				w.t.Errorf("%s %s = %v, want %v", x.name, x.of, got, x.want)
			}
		}
		w.until("all of the log is applied", func() bool { return value(l.gathered(), "shardway_log_lag_entries", "") == 0 })
		for _, x := range [][2]string{
			{"shardway_map_phase_duration_seconds", "drain"},
			{"shardway_map_phase_duration_seconds", "commit"},
			{"shardway_heartbeat_round_trip_seconds", ""},
			{"shardway_raft_commit_duration_seconds", ""},
			{"shardway_raft_write_duration_seconds", ""},
			{"shardway_shards_moved_total", ""},
		} {
			if value(all, x[0], x[1]) < 1 {
				w.t.Errorf("%s %s has counted nothing", x[0], x[1])
			}
		}
		w.asks(l, api.Action{Verb: api.Drain, Node: p.name})
		p.kill()
		w.untilSettled(w.others(p)...)
		w.until("the loss is told", func() bool { return value(l.gathered(), "shardway_failure_tolerance", "") == 0 })
		for name, metrics := range l.gathered() {
			for _, m := range metrics {
				for _, label := range m.GetLabel() {
					if strings.ContainsAny(label.GetValue(), " \t\n") {
						w.t.Errorf("%s: %s = %q has a blank", name, label.GetName(), label.GetValue())
					}
				}
				if h := m.GetHistogram(); h.GetSampleCount() > 0 && (len(h.GetBucket()) == 0 || len(h.GetPositiveSpan()) == 0 && h.GetZeroCount() == 0) {
					w.t.Errorf("%s is not of both kinds: %v", name, h)
				}
			}
		}
		if got := value(l.gathered(), "shardway_map_changes_total", "join"); got < 1 {
			w.t.Errorf("changes because a node joined = %v, want one", got)
		}
	})
}
