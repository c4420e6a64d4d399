package docs_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"shardway/config"
	"shardway/node/process"
)

// recorder is a registry that notes what it is given.
type recorder struct{ all []prometheus.Collector }

func (r *recorder) Register(c prometheus.Collector) error  { r.all = append(r.all, c); return nil }
func (r *recorder) MustRegister(c ...prometheus.Collector) { r.all = append(r.all, c...) }
func (r *recorder) Unregister(prometheus.Collector) bool   { return false }

// newProcess returns a node that is not run yet.
func newProcess(t *testing.T) *process.Process {
	t.Helper()
	flags := []string{"--data", t.TempDir()}
	names := []string{"listen", "peer", "admin", "gossip"}
	for port := 27500; len(names) > 0; port++ { // below those that the system hands out
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr)
		if err != nil {
			continue
		}
		if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
		flags, names = append(flags, "--"+names[0], addr), names[1:]
	}
	c, err := config.Load(flags, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.New(t.Context(), &c, "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, end := context.WithCancel(context.WithoutCancel(t.Context()))
		end()
		if err := p.Run(ended); err != nil {
			t.Error(err)
		}
	})
	return p
}

// meter is a metric as the program describes it.
type meter struct {
	labels []string
	help   string
}

var description = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "(.*?)", (?:unit: ".*?", )?constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// meters returns the metrics of a process by name; those of the Go runtime and of
// processes as such are the library's.
func meters(t *testing.T) map[string]meter {
	t.Helper()
	var r recorder
	if err := newProcess(t).Register(&r); err != nil {
		t.Fatal(err)
	}
	out := map[string]meter{}
	for _, c := range r.all {
		all := make(chan *prometheus.Desc)
		go func() {
			defer close(all)
			c.Describe(all)
		}()
		for d := range all {
			m := description.FindStringSubmatch(d.String())
			if m == nil {
				t.Fatalf("%s is not understood", d)
			}
			if !strings.HasPrefix(m[1], "shardway_") {
				continue
			}
			var labels []string
			for l := range strings.SplitSeq(m[3]+","+m[4], ",") {
				if l, _, _ = strings.Cut(strings.TrimSpace(l), "="); l != "" {
					labels = append(labels, l)
				}
			}
			slices.Sort(labels)
			out[m[1]] = meter{labels, strings.ReplaceAll(m[2], `\"`, `"`)}
		}
	}
	if len(out) < 50 {
		t.Fatalf("only %d metrics", len(out))
	}
	return out
}

const metricsPage = "docs/reference/metrics.md"

var meterRow = regexp.MustCompile("(?m)^\\| `(shardway_[a-z_]+)` \\| ([^|]*) \\| ([^|]*) \\|$")

func TestMetricsOfThePageAreThoseOfTheProgram(t *testing.T) {
	known, documented := meters(t), map[string]bool{}
	for _, row := range meterRow.FindAllStringSubmatch(pages(t)[metricsPage], -1) {
		m, ok := known[row[1]]
		if !ok {
			t.Errorf("%s describes %s, which the program does not have", metricsPage, row[1])
			continue
		}
		if documented[row[1]] {
			t.Errorf("%s describes %s twice", metricsPage, row[1])
		}
		documented[row[1]] = true
		labels := regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[2], -1)
		var names []string
		for _, l := range labels {
			names = append(names, l[1])
		}
		slices.Sort(names)
		if !slices.Equal(names, m.labels) {
			t.Errorf("%s: %s has the labels %v, the program says %v", metricsPage, row[1], names, m.labels)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if !documented[name] {
			t.Errorf("%s does not describe:\n| `%s` | `%s` | %s |", metricsPage, name, strings.Join(known[name].labels, "`, `"), known[name].help)
		}
	}
}

// What an alert, the dashboard or a page names is a metric that exists, with the suffix of
// one of its kind.
func TestMetricsThatAreNamedExist(t *testing.T) {
	known, named := meters(t), map[string]string{}
	texts := pages(t)
	for _, glob := range []string{"deploy/prometheus/*.yml", "deploy/grafana/*.json"} {
		files, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", glob, files, err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			texts[f] = string(b)
		}
	}
	for page, text := range texts {
		for _, name := range regexp.MustCompile(`\bshardway_[a-z_]+[a-z]\b`).FindAllString(text, -1) {
			named[name] = page
		}
	}
	for name, page := range named {
		base := name
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if cut, ok := strings.CutSuffix(name, suffix); ok && strings.HasSuffix(cut, "_seconds") {
				base = cut
			}
		}
		if _, ok := known[base]; !ok {
			t.Errorf("%s names %s, which the program does not have", page, name)
		}
	}
}
