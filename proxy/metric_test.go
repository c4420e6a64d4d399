package proxy_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shardway/proxy"
	"shardway/proxy/route"
)

// metric returns the value of a counter or gauge of a node, or the count of a histogram. It sums the
// series whose label values contain all of labels.
func metric(t *testing.T, n *node, name string, labels ...string) float64 {
	t.Helper()
	value, _ := gathered(t, n, name, labels)
	return value
}

// seconds returns the sum of a node's histogram.
func seconds(t *testing.T, n *node, name string) float64 {
	t.Helper()
	_, sum := gathered(t, n, name, nil)
	return sum
}

func gathered(t *testing.T, n *node, name string, labels []string) (value, sum float64) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(n.Server); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			have := make(map[string]bool)
			for _, l := range m.GetLabel() {
				have[l.GetValue()] = true
			}
			match := true
			for _, l := range labels {
				match = match && have[l]
			}
			if match {
				value += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
				sum += m.GetHistogram().GetSampleSum()
			}
		}
	}
	return value, sum
}

func TestRequestsAreCountedByRouteAndCode(t *testing.T) {
	ingress, owner := pair(t, webApp(t, echo))
	c := ingress.dial()
	c.get("/")
	c.get("/")
	c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	c.answer("GET")
	for _, want := range []struct {
		n           *node
		route, code string
		count       float64
	}{{ingress, "remote", "200", 2}, {ingress, "none", "400", 1}, {owner, "local", "200", 2}} {
		if got := metric(t, want.n, "shardway_requests_total", want.route, want.code); got != want.count {
			t.Errorf("%s %s = %v, want %v", want.route, want.code, got, want.count)
		}
	}
}

// Each response is measured once, at the node that sends it to the client, and so is the part of the
// app.
func TestResponseTimesAreMeasured(t *testing.T) {
	ingress, owner := pair(t, webApp(t, echo))
	c := ingress.dial()
	c.get("/")
	c.get("/")
	c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	c.answer("GET")
	for _, want := range []struct {
		n      *node
		name   string
		labels []string
		count  float64
	}{
		{ingress, "shardway_request_duration_seconds", []string{"remote", "2xx"}, 2},
		{ingress, "shardway_request_duration_seconds", []string{"none", "4xx"}, 1},
		{ingress, "shardway_upstream_duration_seconds", []string{"remote"}, 2},
		{owner, "shardway_request_duration_seconds", []string{"local", "2xx"}, 2},
		{owner, "shardway_upstream_duration_seconds", []string{"local"}, 2},
	} {
		until(t, want.name, func() bool { return metric(t, want.n, want.name, want.labels...) == want.count })
	}
}

// The queue wait of a request is recorded under the first reason that it waited for.
func TestQueueWaitIsMeasured(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.QueueWait = 50 * time.Millisecond })
	n.swap(1, 2, held(route.ReasonMoving))
	n.dial().get("/")
	until(t, "it is timed", func() bool {
		return metric(t, n, "shardway_queue_wait_seconds", "moving") == 1 && metric(t, n, "shardway_request_duration_seconds", "queued", "5xx") == 1
	})
}
