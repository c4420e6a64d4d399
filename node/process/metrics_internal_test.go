package process

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"shardway/config"
)

// gauge returns the first value of a metric that a collector has, -1 without one.
func gauge(t *testing.T, c prometheus.Collector, name string) float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// A mistake in the settings stays to be seen until a reload is taken over, and the time of
// the last good one with it.
func TestReloadsAreTold(t *testing.T) {
	var p Process
	p.reloads.note(nil)
	begun := gauge(t, &p.reloads, "shardway_reload_timestamp_seconds")
	if good := gauge(t, &p.reloads, "shardway_reload_success"); good != 1 || begun < 1 {
		t.Errorf("at the start: %v since %v", good, begun)
	}
	p.NotReloaded(errors.New("a mistake"))
	if good := gauge(t, &p.reloads, "shardway_reload_success"); good != 0 {
		t.Errorf("after a mistake: %v", good)
	}
	if last := gauge(t, &p.reloads, "shardway_reload_timestamp_seconds"); last != begun {
		t.Errorf("a mistake was taken over at %v", last)
	}
}

func TestCertificatesTellWhenTheyExpire(t *testing.T) {
	p := &Process{guards: &guards{c: &config.Config{}}, front: newFront(nil, nil, zerolog.Nop())}
	const name = "shardway_certificate_expiry_timestamp_seconds"
	if got := gauge(t, certificates{p}, name); got != -1 {
		t.Errorf("without one: %v", got)
	}
	until := time.Unix(2_000_000_000, 0)
	p.front.cert.Store(&certificate{tls: tls.Certificate{Leaf: &x509.Certificate{NotAfter: until}}})
	if got := gauge(t, certificates{p}, name); got != 2e9 {
		t.Errorf("%v, want %v", got, until.Unix())
	}
}
