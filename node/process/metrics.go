package process

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"shardway/internal/version"
)

// Register adds the metrics of the process and of its node to r.
func (p *Process) Register(r prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "shardway_access_log_lost_total", Help: "Total number of access log lines lost because the disk did not keep up.",
		}, p.accessLogs.lostLines),
		buildInfo(),
		certificateCollector{p},
		&p.reloadStatus,
	} {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("process: metrics: %w", err)
		}
	}
	return p.node.Register(r)
}

// buildInfo returns a metric with the version of the program.
func buildInfo() prometheus.Collector {
	b := version.Read()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "shardway_build_info", Help: "1 if the program runs, with its build as labels.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "go": b.Go},
	}, func() float64 { return 1 })
}

// certificateCollector exports the expiry times of the certificates in use. Certificates that are
// derived from the secret do not expire.
type certificateCollector struct{ p *Process }

var (
	_ prometheus.Collector = certificateCollector{}
	_ prometheus.Collector = (*reloadStatus)(nil)

	descExpiry = prometheus.NewDesc("shardway_certificate_expiry_timestamp_seconds",
		"Time when a certificate in use expires, in Unix seconds, by the flag that names its file.", []string{"certificate"}, nil)
	descReloaded = prometheus.NewDesc("shardway_reload_success",
		"1 if the last reload of the settings succeeded or there was none, 0 if it failed.", nil, nil)
	descReloadedAt = prometheus.NewDesc("shardway_reload_timestamp_seconds",
		"Time of the last successful reload of the settings, or of the start, in Unix seconds.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c certificateCollector) Describe(ch chan<- *prometheus.Desc) { ch <- descExpiry }

// Collect implements prometheus.Collector.
func (c certificateCollector) Collect(ch chan<- prometheus.Metric) {
	_, all := c.p.exposures()
	for _, cert := range all {
		ch <- prometheus.MustNewConstMetric(descExpiry, prometheus.GaugeValue, float64(cert.ExpiresAt.Unix()), cert.Flag)
	}
}

// reloadStatus records the result of the last reload.
type reloadStatus struct {
	failed      atomic.Bool
	lastSuccess atomic.Int64 // time of the last successful reload, in Unix seconds
}

// record records the result of a reload. A nil error means success.
func (st *reloadStatus) record(err error) {
	st.failed.Store(err != nil)
	if err == nil {
		st.lastSuccess.Store(time.Now().Unix())
	}
}

// Describe implements prometheus.Collector.
func (st *reloadStatus) Describe(ch chan<- *prometheus.Desc) {
	ch <- descReloaded
	ch <- descReloadedAt
}

// Collect implements prometheus.Collector.
func (st *reloadStatus) Collect(ch chan<- prometheus.Metric) {
	good := 1.0
	if st.failed.Load() {
		good = 0
	}
	ch <- prometheus.MustNewConstMetric(descReloaded, prometheus.GaugeValue, good)
	ch <- prometheus.MustNewConstMetric(descReloadedAt, prometheus.GaugeValue, float64(st.lastSuccess.Load()))
}
