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
		}, p.journal.lost),
		built(),
		certificates{p},
		&p.reloads,
	} {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("process: metrics: %w", err)
		}
	}
	return p.node.Register(r)
}

// built says which program runs.
func built() prometheus.Collector {
	b := version.Read()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "shardway_build_info", Help: "1 if the program runs, with its build as labels.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "go": b.Go},
	}, func() float64 { return 1 })
}

// certificates say until when those in use hold. What is made of the cluster's secret
// does not expire.
type certificates struct{ p *Process }

var (
	_ prometheus.Collector = certificates{}
	_ prometheus.Collector = (*reloads)(nil)

	descExpiry = prometheus.NewDesc("shardway_certificate_expiry_timestamp_seconds",
		"Time when a certificate in use expires, in Unix seconds, by the flag that names its file.", []string{"certificate"}, nil)
	descReloaded = prometheus.NewDesc("shardway_reload_success",
		"1 if the last reload of the settings succeeded or there was none, 0 if it failed.", nil, nil)
	descReloadedAt = prometheus.NewDesc("shardway_reload_timestamp_seconds",
		"Time of the last successful reload of the settings, or of the start, in Unix seconds.", nil, nil)
)

// Describe sends the description; see prometheus.Collector.
func (c certificates) Describe(ch chan<- *prometheus.Desc) { ch <- descExpiry }

// Collect sends the present values; see prometheus.Collector.
func (c certificates) Collect(ch chan<- prometheus.Metric) {
	_, all := c.p.exposed()
	for _, x := range all {
		ch <- prometheus.MustNewConstMetric(descExpiry, prometheus.GaugeValue, float64(x.Until.Unix()), x.Flag)
	}
}

// reloads remembers what became of the last one.
type reloads struct {
	failed atomic.Bool
	good   atomic.Int64 // when the last one was that did not, in Unix seconds
}

func (l *reloads) note(err error) {
	l.failed.Store(err != nil)
	if err == nil {
		l.good.Store(time.Now().Unix())
	}
}

// Describe sends the descriptions; see prometheus.Collector.
func (l *reloads) Describe(ch chan<- *prometheus.Desc) { ch <- descReloaded; ch <- descReloadedAt }

// Collect sends the present values; see prometheus.Collector.
func (l *reloads) Collect(ch chan<- prometheus.Metric) {
	good := 1.0
	if l.failed.Load() {
		good = 0
	}
	ch <- prometheus.MustNewConstMetric(descReloaded, prometheus.GaugeValue, good)
	ch <- prometheus.MustNewConstMetric(descReloadedAt, prometheus.GaugeValue, float64(l.good.Load()))
}
