package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	ackagent "shardway/ack/agent"
	"shardway/shardmap"
)

// Values of the label result of the duration of a hook call.
const (
	hookResultOK      = "ok"
	hookResultFailed  = "failed"  // failed for all or some of its shards
	hookResultAborted = "aborted" // aborted because the call was no longer needed
)

// Hooks measures hook calls. Its methods may be called from any goroutine.
type Hooks struct {
	durations *prometheus.HistogramVec
	shards    *prometheus.CounterVec
	noteBytes *prometheus.CounterVec
	retries   *prometheus.CounterVec

	// mu protects failed, which contains the hook and ownership epoch of the last failed call of a shard.
	mu     sync.Mutex
	failed map[shardmap.Shard]failedCall
}

// failedCall identifies a failed call for a shard. A later call with the same hook and epoch repeats it.
type failedCall struct {
	kind  ackagent.HookKind
	epoch shardmap.Epoch // ownership epoch of the shard
}

// NewHooks creates the metrics. All values of their labels are exported as 0 from the start.
func NewHooks() *Hooks {
	vec := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shardway_" + name, Help: help}, []string{"type"})
	}
	m := &Hooks{
		durations: prometheus.NewHistogramVec(durationOpts("hook_duration_seconds", "Time that a hook call to the app took, by type of the hook and result."), []string{"type", "result"}),
		shards:    vec("hook_shards_total", "Total number of shards in hook calls to the app, repeated calls included, by type of the hook."),
		noteBytes: vec("hook_note_bytes_total", "Bytes of notes about shards in hook calls, by type of the hook: returned by release calls, and passed to acquire calls."),
		retries:   vec("hook_retries_total", "Total number of hook calls to the app that repeat a failed call for a shard, by type of the hook."),
		failed:    map[shardmap.Shard]failedCall{},
	}
	for _, kind := range []ackagent.HookKind{ackagent.HookAcquire, ackagent.HookRelease, ackagent.HookLost} {
		hook := kind.String()
		m.shards.WithLabelValues(hook)
		m.retries.WithLabelValues(hook)
		if kind != ackagent.HookLost { // a lost call has no notes
			m.noteBytes.WithLabelValues(hook)
		}
		for _, result := range []string{hookResultOK, hookResultFailed, hookResultAborted} {
			m.durations.WithLabelValues(hook, result)
		}
	}
	return m
}

// collectors returns all metrics.
func (m *Hooks) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.durations, m.shards, m.noteBytes, m.retries}
}

// RecordStart records that a call starts.
func (m *Hooks) RecordStart(call *ackagent.HookCall) {
	hook := call.Kind.String()
	m.shards.WithLabelValues(hook).Add(float64(len(call.Shards)))
	noteBytes, repeats := 0, false
	m.mu.Lock()
	for _, s := range call.Shards {
		noteBytes += len(s.Note)
		if last, hasFailed := m.failed[s.Shard]; hasFailed && last == (failedCall{call.Kind, s.Epoch}) {
			repeats = true
		}
	}
	m.mu.Unlock()
	if call.Kind == ackagent.HookAcquire {
		m.noteBytes.WithLabelValues(hook).Add(float64(noteBytes))
	}
	if repeats {
		m.retries.WithLabelValues(hook).Inc()
	}
}

// RecordEnd records that a call ended after d. wasAborted is set if the call was no longer needed.
func (m *Hooks) RecordEnd(call *ackagent.HookCall, result *ackagent.HookResult, wasAborted bool, d time.Duration) {
	hook, outcome := call.Kind.String(), hookResultOK
	switch {
	case wasAborted:
		outcome = hookResultAborted
	case result.Err != nil || len(result.Failed) > 0:
		outcome = hookResultFailed
	}
	m.durations.WithLabelValues(hook, outcome).Observe(d.Seconds())
	noteBytes := 0
	for _, note := range result.Notes {
		noteBytes += len(note)
	}
	if call.Kind == ackagent.HookRelease {
		m.noteBytes.WithLabelValues(hook).Add(float64(noteBytes))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range call.Shards {
		_, hasFailed := result.Failed[s.Shard]
		if !wasAborted && (hasFailed || result.Err != nil) {
			m.failed[s.Shard] = failedCall{call.Kind, s.Epoch}
		} else {
			delete(m.failed, s.Shard)
		}
	}
}
