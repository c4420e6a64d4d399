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

// gaugeValue returns the first value of a metric, or -1 if the collector does not have it.
func gaugeValue(t *testing.T, c prometheus.Collector, name string) float64 {
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

// A failed reload and the time of the last successful reload remain visible until the next
// successful reload.
func TestMetricsShowTheResultOfTheLastReload(t *testing.T) {
	var p Process
	p.reloadStatus.record(nil)
	begun := gaugeValue(t, &p.reloadStatus, "shardway_reload_timestamp_seconds")
	if good := gaugeValue(t, &p.reloadStatus, "shardway_reload_success"); good != 1 || begun < 1 {
		t.Errorf("at the start: %v since %v", good, begun)
	}
	p.RecordReloadFailure(errors.New("a mistake"))
	if good := gaugeValue(t, &p.reloadStatus, "shardway_reload_success"); good != 0 {
		t.Errorf("after a mistake: %v", good)
	}
	if last := gaugeValue(t, &p.reloadStatus, "shardway_reload_timestamp_seconds"); last != begun {
		t.Errorf("a mistake was taken over at %v", last)
	}
}

func TestMetricsShowTheExpiryOfCertificates(t *testing.T) {
	p := &Process{credentials: &credentials{config: &config.Config{}}, appPort: newTLSListener(nil, nil, zerolog.Nop())}
	const name = "shardway_certificate_expiry_timestamp_seconds"
	if got := gaugeValue(t, certificateCollector{p}, name); got != -1 {
		t.Errorf("without one: %v", got)
	}
	until := time.Unix(2_000_000_000, 0)
	p.appPort.cert.Store(&certificate{tls: tls.Certificate{Leaf: &x509.Certificate{NotAfter: until}}})
	if got := gaugeValue(t, certificateCollector{p}, name); got != 2e9 {
		t.Errorf("%v, want %v", got, until.Unix())
	}
}
