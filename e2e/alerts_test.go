//go:build linux

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
)

// samples are the values of metrics of real nodes over time, as series of a unit test of promtool.
type samples struct {
	t      *testing.T
	values map[string][]string // by series
	count  int
}

// scrapeInterval is the time between two samples, as between two scrapes of Prometheus.
const scrapeInterval = 400 * time.Millisecond

// record samples the metrics with these names at the nodes n times. A node that does not respond has no value.
func (s *samples) record(nodes []*cluster.Node, n int, names ...string) {
	s.t.Helper()
	for range n {
		for _, node := range nodes {
			metrics, err := node.Metrics(s.t.Context())
			if err != nil {
				continue
			}
			for series, value := range metrics {
				name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
				for _, wanted := range names {
					if name == wanted {
						s.add(fmt.Sprintf("%s{job=%q,instance=%q,%s}", name, "s", node.ID, labels), fmt.Sprint(value))
					}
				}
			}
		}
		s.count++
		time.Sleep(scrapeInterval)
	}
}

// add adds a value of the current sample, after gaps for the samples that a series lacks.
func (s *samples) add(series, value string) {
	for len(s.values[series]) < s.count {
		s.values[series] = append(s.values[series], "_")
	}
	s.values[series] = append(s.values[series], value)
}

// wantFiring checks that Prometheus raises an alert by the rules of deploy, and that the alert did not fire at the first
// sample. It treats the samples as a minute apart, so that an alert with a delay of minutes does not delay the test.
func (s *samples) wantFiring(alert string) {
	s.t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		s.t.Skip("promtool is not installed: it comes with Debian's package prometheus")
	}
	rules, err := filepath.Abs("../deploy/prometheus/shardway.rules.yml")
	must(s.t, err)
	var series []map[string]string
	for name, values := range s.values {
		series = append(series, map[string]string{"series": name, "values": strings.Join(values, " ")})
	}
	query := func(value string, at int) map[string]any {
		want := []map[string]any{}
		if value != "" {
			want = append(want, map[string]any{"labels": "{}", "value": 1})
		}
		return map[string]any{"expr": fmt.Sprintf("count(count by (job) (ALERTS{alertname=%q,alertstate=\"firing\"}))", alert), "eval_time": fmt.Sprintf("%dm", at), "exp_samples": want}
	}
	test, err := json.Marshal(map[string]any{ // JSON is YAML, too
		"rule_files": []string{rules}, "evaluation_interval": "1m",
		"tests": []any{map[string]any{"interval": "1m", "input_series": series, "promql_expr_test": []any{query("", 0), query("firing", s.count-1)}}},
	})
	must(s.t, err)
	file := filepath.Join(s.t.TempDir(), "test.yml")
	must(s.t, os.WriteFile(file, test, 0o600))
	if out, err := exec.CommandContext(s.t.Context(), tool, "test", "rules", file).CombinedOutput(); err != nil {
		s.t.Errorf("%s: %v: %s", alert, err, out)
	}
}

// TestAlertsOnLostNodesFire kills the two followers of a leader that leads for 8 s without a quorum. The samples of its
// metrics raise the alerts about it and about the failed nodes.
func TestAlertsOnLostNodesFire(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	c := start(t, 3, "--raft-timeout", "8s", "--dead-after", "20s")
	c.AwaitServing(t)
	leader := c.Leader(t)
	s := samples{t: t, values: map[string][]string{}}
	names := []string{"shardway_leader", "shardway_leader_lease_seconds", "shardway_nodes"}
	s.record(c.Nodes(), 2, names...)
	for _, node := range c.Others(leader) {
		node.Kill(t)
	}
	awaitMetric(t, leader, "shardway_leader_lease_seconds", 0)
	s.record([]*cluster.Node{leader}, 12, names...)
	s.wantFiring("ShardwayLeaderWithoutQuorum")
	leader.AwaitStatus(t, "both followers failed", func(status cluster.Status) bool {
		for _, node := range c.Others(leader) {
			if status.Member(node.ID).State != "failed" {
				return false
			}
		}
		return true
	})
	s.record([]*cluster.Node{leader}, 4, names...)
	s.wantFiring("ShardwayMostNodesFailed")
}

// TestAlertOnStuckMapChangeFires drains a node whose app does not respond to release calls. The samples of the metric
// raise the alert, because the map change stays in progress.
func TestAlertOnStuckMapChangeFires(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	c := startWithCounters(t, 3, []string{"--through"}, "--release-timeout", "8s", "--queue-wait", "40s", "--shutdown-timeout", "60s")
	c.AwaitServing(t)
	node := c.Follower(t)
	s := samples{t: t, values: map[string][]string{}}
	s.record(c.Nodes(), 1, "shardway_map_change_in_progress")
	node.App.SetHookFault(t, "release", "hang")
	c.Others(node)[0].PerformAction(t, "drain", map[string][]string{"node": {node.ID}})
	awaitMetric(t, c.Leader(t), "shardway_map_change_in_progress", 1)
	s.record(c.Nodes(), 10, "shardway_map_change_in_progress")
	s.wantFiring("ShardwayMapChangeStuck")
	node.App.SetHookFault(t, "release", "none")
}

// awaitMetric waits until a metric of a node has a value.
func awaitMetric(t *testing.T, node *cluster.Node, name string, want float64) {
	t.Helper()
	cluster.Await(t, fmt.Sprintf("%s is %v", name, want), func() error {
		metrics, err := node.Metrics(t.Context())
		if value, ok := metrics[name]; err == nil && (!ok || value != want) {
			err = fmt.Errorf("%s is %v, exists: %v", name, value, ok)
		}
		return err
	})
}
