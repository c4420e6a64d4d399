//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// table prints results.
type table struct{ out io.Writer }

func newTable(out io.Writer) *table { return &table{out: out} }

// machine says where the figures come from.
func (t *table) machine() {
	model := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease") // without it the line is shorter
	fmt.Fprintf(t.out, "%d × %s, Linux %s, %s\n", runtime.NumCPU(), model, strings.TrimSpace(string(release)), runtime.Version())
}

// add prints a case: medians, and the span of what counts most.
func (t *table) add(c testCase, lines []*line, results [][]result) {
	fmt.Fprintf(t.out, "\n%v (%d rounds)\n", c, len(results[0]))
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "line\tCPU µs/request\tmin–max\t× nginx\trequests/s\tp50 ms\tp99 ms\tRSS MiB\t")
	nginx := nginxCost(lines, results)
	for i, l := range lines {
		rs := results[i]
		cost := median(rs, func(r result) time.Duration { return r.perRequest })
		least := slices.MinFunc(rs, byCost).perRequest
		most := slices.MaxFunc(rs, byCost).perRequest
		ratio := "-"
		if nginx > 0 && cost > 0 {
			ratio = fmt.Sprintf("%.2f", float64(cost)/float64(nginx))
		}
		if nginx > 0 && strings.HasPrefix(l.name, "shardway") {
			ratio += fmt.Sprintf(" (bar %.2f)", c.bar())
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.1f–%.1f\t%s\t%.0f\t%.2f\t%.2f\t%.1f\t\n", l.name, micros(cost), micros(least), micros(most), ratio,
			median(rs, func(r result) float64 { return r.rate }),
			micros(median(rs, func(r result) time.Duration { return r.p50 }))/1000,
			micros(median(rs, func(r result) time.Duration { return r.p99 }))/1000,
			float64(median(rs, func(r result) int64 { return r.rss }))/(1<<20))
	}
	_ = w.Flush() // to the terminal
}

func byCost(a, b result) int { return cmp.Compare(a.perRequest, b.perRequest) }

// nginxCost is what the others are compared with, 0 without it.
func nginxCost(lines []*line, results [][]result) time.Duration {
	for i, l := range lines {
		if strings.HasPrefix(l.name, "nginx") {
			return median(results[i], func(r result) time.Duration { return r.perRequest })
		}
	}
	return 0
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func median[T cmp.Ordered](rs []result, of func(result) T) T {
	all := make([]T, len(rs))
	for i, r := range rs {
		all[i] = of(r)
	}
	slices.Sort(all)
	return all[len(all)/2]
}
