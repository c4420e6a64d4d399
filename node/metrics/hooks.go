package metrics

import (
	"cmp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/internal/servicelabel"
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
	// hasServices is set if the metrics have the label service.
	hasServices bool

	// mu protects failed, which contains the hook and ownership epoch of the last failed call of a shard.
	mu     sync.Mutex
	failed map[shardmap.Shard]failedCall
}

// failedCall identifies a failed call for a shard. A later call with the same hook and epoch repeats it.
type failedCall struct {
	kind  ackagent.HookKind
	epoch shardmap.Epoch // ownership epoch of the shard
}

// NewHooks creates the metrics. All values of their labels are exported as 0 from the start. services are the
// services of the configuration. If there are any, each metric has the label service.
func NewHooks(services ...string) *Hooks {
	labels := func(names ...string) []string {
		if len(services) > 0 {
			names = append(names, servicelabel.Name)
		}
		return names
	}
	vec := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shardway_" + name, Help: help}, labels("type"))
	}
	m := &Hooks{
		hasServices: len(services) > 0,
		durations:   prometheus.NewHistogramVec(durationOpts("hook_duration_seconds", "Time that a hook call to the app took, by type of the hook and result."), labels("type", "result")),
		shards:      vec("hook_shards_total", "Total number of shards in hook calls to the app, repeated calls included, by type of the hook."),
		noteBytes:   vec("hook_note_bytes_total", "Bytes of notes about shards in hook calls, by type of the hook: returned by release calls, and passed to acquire calls."),
		retries:     vec("hook_retries_total", "Total number of hook calls to the app that repeat a failed call for a shard, by type of the hook."),
		failed:      map[shardmap.Shard]failedCall{},
	}
	if !m.hasServices {
		services = []string{""}
	}
	for _, service := range services {
		m.exportZero(service)
	}
	return m
}

// exportZero creates the series of a service. The name is empty without services.
func (m *Hooks) exportZero(service string) {
	for _, kind := range []ackagent.HookKind{ackagent.HookAcquire, ackagent.HookRelease, ackagent.HookLost} {
		call := &ackagent.HookCall{Kind: kind, Service: service}
		m.shards.WithLabelValues(m.labelsOf(call)...)
		m.retries.WithLabelValues(m.labelsOf(call)...)
		if kind != ackagent.HookLost { // a lost call has no notes
			m.noteBytes.WithLabelValues(m.labelsOf(call)...)
		}
		for _, result := range []string{hookResultOK, hookResultFailed, hookResultAborted} {
			m.durations.WithLabelValues(m.labelsOf(call, result)...)
		}
	}
}

// labelsOf returns the values of the labels for a call: the type, the further values and the service. Without a
// list of services in the cluster, all shards belong to the service default.
func (m *Hooks) labelsOf(call *ackagent.HookCall, further ...string) []string {
	values := append([]string{call.Kind.String()}, further...)
	if m.hasServices {
		values = append(values, cmp.Or(call.Service, ack.DefaultService))
	}
	return values
}

// collectors returns all metrics.
func (m *Hooks) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.durations, m.shards, m.noteBytes, m.retries}
}

// RecordStart records that a call starts.
func (m *Hooks) RecordStart(call *ackagent.HookCall) {
	labels := m.labelsOf(call)
	m.shards.WithLabelValues(labels...).Add(float64(len(call.Shards)))
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
		m.noteBytes.WithLabelValues(labels...).Add(float64(noteBytes))
	}
	if repeats {
		m.retries.WithLabelValues(labels...).Inc()
	}
}

// RecordEnd records that a call ended after d. wasAborted is set if the call was no longer needed.
func (m *Hooks) RecordEnd(call *ackagent.HookCall, result *ackagent.HookResult, wasAborted bool, d time.Duration) {
	outcome := hookResultOK
	switch {
	case wasAborted:
		outcome = hookResultAborted
	case result.Err != nil || len(result.Failed) > 0:
		outcome = hookResultFailed
	}
	m.durations.WithLabelValues(m.labelsOf(call, outcome)...).Observe(d.Seconds())
	noteBytes := 0
	for _, note := range result.Notes {
		noteBytes += len(note)
	}
	if call.Kind == ackagent.HookRelease {
		m.noteBytes.WithLabelValues(m.labelsOf(call)...).Add(float64(noteBytes))
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
