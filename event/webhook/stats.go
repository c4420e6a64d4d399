package webhook

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shardway/internal/address"
)

// stats counts what a sender has done. Its fields and methods may be used from any goroutine.
type stats struct {
	delivered, lost, rejected atomic.Uint64 // events
	succeeded, failed         atomic.Uint64 // requests
	seen                      atomic.Uint64 // number of the last event that was acknowledged, rejected or lost
	failingSince              atomic.Int64  // Unix nanoseconds of the first failure in a row; zero means that the last request succeeded

	// mu protects the following field.
	mu        sync.Mutex
	lastError string // of the last request; empty if it succeeded
}

// recordRequest records the result of a request; an empty failure means success. It returns true if the request before
// had another result.
func (st *stats) recordRequest(failure string) (hasChanged bool) {
	st.mu.Lock()
	st.lastError = failure
	st.mu.Unlock()
	if failure == "" {
		st.succeeded.Add(1)
		return st.failingSince.Swap(0) != 0
	}
	st.failed.Add(1)
	return st.failingSince.CompareAndSwap(0, time.Now().UnixNano())
}

// recordTarget records that the next request has another receiver.
func (st *stats) recordTarget() {
	st.failingSince.Store(0)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.lastError = ""
}

// Status is the state of the delivery.
type Status struct {
	// Receiver is the URL of the receiver without secrets; empty means that nothing is sent.
	Receiver string
	// FailingFor is the time since the first of the last requests that failed in a row; zero means that the last request
	// succeeded, or that there was none.
	FailingFor time.Duration
	// Error is the error of the last request; empty if FailingFor is zero.
	Error string
	// Lost is the number of events that were lost since the start, because they left the ring before the receiver
	// acknowledged them.
	Lost uint64
	// Undelivered is the number of events that the receiver has not acknowledged.
	Undelivered uint64
}

// Status returns the state of the delivery.
func (s *Sender) Status() Status {
	status := Status{Lost: s.stats.lost.Load(), Undelivered: s.undelivered()}
	target := s.target.Load()
	if target == nil {
		return status
	}
	status.Receiver = address.RedactURL(target.String())
	if since := s.stats.failingSince.Load(); since != 0 {
		status.FailingFor = max(time.Since(time.Unix(0, since)), 1)
		s.stats.mu.Lock()
		status.Error = s.stats.lastError
		s.stats.mu.Unlock()
	}
	return status
}

// Collectors returns the metrics of the sender.
func (s *Sender) Collectors() []prometheus.Collector {
	counter := func(name, help, label, value string, count *atomic.Uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "shardway_" + name, Help: help, ConstLabels: prometheus.Labels{label: value}}, func() float64 { return float64(count.Load()) })
	}
	const (
		events   = "Total number of events for the webhook, by result: delivered, lost because the receiver did not acknowledge them in time, or rejected by the receiver."
		requests = "Total number of requests to the webhook, by result."
	)
	return []prometheus.Collector{
		counter("webhook_events_total", events, "result", "delivered", &s.stats.delivered),
		counter("webhook_events_total", events, "result", "lost", &s.stats.lost),
		counter("webhook_events_total", events, "result", "rejected", &s.stats.rejected),
		counter("webhook_requests_total", requests, "result", "ok", &s.stats.succeeded),
		counter("webhook_requests_total", requests, "result", "failed", &s.stats.failed),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "shardway_webhook_undelivered_events", Help: "Number of events that the webhook has not acknowledged yet."}, func() float64 { return float64(s.undelivered()) }),
	}
}
