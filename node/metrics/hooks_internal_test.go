package metrics

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	ackagent "shardway/ack/agent"
	"shardway/shardmap"
)

// A call counts as a retry only if it repeats a failed call of the same hook under the same ownership epoch. Notes count for
// the release that returned them and for the acquire that passes them on.
func TestHookMetricsCountShardsNotesAndRetries(t *testing.T) {
	t.Parallel()
	m := NewHooks()
	call := func(kind ackagent.HookKind, epoch shardmap.Epoch, result ackagent.HookResult, wasAborted bool) {
		c := ackagent.HookCall{Kind: kind, Shards: []ackagent.HookShard{{Shard: 1, Epoch: epoch, Note: []byte("note")}, {Shard: 2, Epoch: epoch}}}
		m.RecordStart(&c)
		m.RecordEnd(&c, &result, wasAborted, time.Second)
	}
	failedOne := ackagent.HookResult{Failed: map[shardmap.Shard]string{2: "full"}}
	call(ackagent.HookAcquire, 1, failedOne, false)
	call(ackagent.HookAcquire, 2, failedOne, false)                                       // another epoch
	call(ackagent.HookAcquire, 2, ackagent.HookResult{Err: errors.New("refused")}, false) // repeats
	call(ackagent.HookAcquire, 2, ackagent.HookResult{}, false)                           // repeats
	call(ackagent.HookAcquire, 2, ackagent.HookResult{Err: errors.New("canceled")}, true)
	call(ackagent.HookAcquire, 2, ackagent.HookResult{}, false)
	call(ackagent.HookRelease, 2, ackagent.HookResult{Notes: map[shardmap.Shard][]byte{1: []byte("abc"), 2: []byte("de")}}, false)
	for hook, want := range map[string]struct{ shards, retries, notes float64 }{"acquire": {12, 2, 24}, "release": {2, 0, 5}} {
		got := [3]float64{written(t, m.shards.WithLabelValues(hook)).GetCounter().GetValue(), written(t, m.retries.WithLabelValues(hook)).GetCounter().GetValue(), written(t, m.noteBytes.WithLabelValues(hook)).GetCounter().GetValue()}
		if got != [3]float64{want.shards, want.retries, want.notes} {
			t.Errorf("%s: shards, retries and bytes %v, want %v", hook, got, want)
		}
	}
	for result, want := range map[string]uint64{hookResultOK: 2, hookResultFailed: 3, hookResultAborted: 1} {
		if got := written(t, m.durations.WithLabelValues("acquire", result)).GetHistogram().GetSampleCount(); got != want {
			t.Errorf("%d acquire calls with result %s, want %d", got, result, want)
		}
	}
	if len(m.failed) != 0 {
		t.Errorf("failed calls kept: %v", m.failed)
	}
}

// With services, each metric has the label service, and all series exist from the start. Shards of a cluster without
// a list of services belong to the service default.
func TestHookMetricsByService(t *testing.T) {
	t.Parallel()
	m := NewHooks("chat", "default")
	for _, service := range []string{"chat", ""} {
		call := ackagent.HookCall{Kind: ackagent.HookRelease, Service: service, Shards: []ackagent.HookShard{{Shard: 1}}}
		m.RecordStart(&call)
		m.RecordEnd(&call, &ackagent.HookResult{Notes: map[shardmap.Shard][]byte{1: []byte("abc")}}, false, time.Second)
	}
	registry := prometheus.NewPedanticRegistry()
	for _, collector := range m.collectors() {
		registry.MustRegister(collector)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		count, total := len(family.GetMetric()), 0.0
		for _, metric := range family.GetMetric() {
			labels := metric.GetLabel()
			service := labels[slices.IndexFunc(labels, func(l *dto.LabelPair) bool { return l.GetName() == "service" })].GetValue()
			if service != "chat" && service != "default" {
				t.Errorf("%s has the service %q", family.GetName(), service)
			}
			total += metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
		want := map[string]struct {
			count int
			total float64
		}{
			"shardway_hook_duration_seconds": {18, 2}, "shardway_hook_shards_total": {6, 2}, "shardway_hook_note_bytes_total": {4, 6}, "shardway_hook_retries_total": {6, 0},
		}[family.GetName()]
		if count != want.count || total != want.total {
			t.Errorf("%s: %d series with %v in all, want %+v", family.GetName(), count, total, want)
		}
	}
}

// written returns the value of a metric.
func written(t *testing.T, collected any) *dto.Metric {
	t.Helper()
	metric, ok := collected.(prometheus.Metric)
	if !ok {
		t.Fatalf("%T is not a metric", collected)
	}
	var m dto.Metric
	if err := metric.Write(&m); err != nil {
		t.Fatal(err)
	}
	return &m
}
