package metrics

import (
	"errors"
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
