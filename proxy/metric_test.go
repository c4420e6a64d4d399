package proxy_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// metric returns a counter or gauge of a node whose label values contain all of
// labels.
func metric(t *testing.T, n *node, name string, labels ...string) float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(n.Server); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
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
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
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
