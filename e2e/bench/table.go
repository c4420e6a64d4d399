//go:build linux

package main

import (
	"bytes"
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

// machine prints the processor, the kernel and the versions of the measured programs.
func (t *table) machine(lines []*line) {
	model := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease") // omitted if the file does not exist
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d × %s, Linux %s, %s\n", runtime.NumCPU(), model, bytes.TrimSpace(release), runtime.Version())
	for _, l := range lines {
		if l.version != "" {
			fmt.Fprintf(&b, "%s: %s\n", l.name, l.version)
		}
	}
	_, _ = t.out.Write(b.Bytes()) // writes to a terminal
}

// add prints the results of a case: the medians of the rounds, and the range of the CPU
// time.
func (t *table) add(c testCase, lines []*line, results [][]result) {
	if c.beside != 0 {
		t.addStreamCase(c, lines, results)
		return
	}
	var b bytes.Buffer
	against := "× nginx"
	if c.observed {
		against = "µs more (min to max)"
	}
	fmt.Fprintf(&b, "line\tCPU µs/request\tmin–max\t%s\trequests/s\tp50 ms\tp99 ms\tRSS MiB\t\n", against)
	nginx, base := nginxCost(lines, results), slices.IndexFunc(lines, func(l *line) bool { return l.name == unobserved })
	for i, l := range lines {
		rs := results[i]
		cost := median(rs, func(r result) time.Duration { return r.perRequest })
		compared := ratio(c, l, cost, nginx)
		if c.observed {
			compared = more(results, i, base)
		}
		fmt.Fprintf(&b, "%s\t%.1f\t%.1f–%.1f\t%s\t%.0f\t%.2f\t%.2f\t%.1f\t\n", l.name, micros(cost),
			micros(slices.MinFunc(rs, byCost).perRequest), micros(slices.MaxFunc(rs, byCost).perRequest), compared,
			median(rs, func(r result) float64 { return r.rate }),
			micros(median(rs, func(r result) time.Duration { return r.p50 }))/1000,
			micros(median(rs, func(r result) time.Duration { return r.p99 }))/1000,
			float64(median(rs, func(r result) int64 { return r.rss }))/(1<<20))
	}
	_, _ = fmt.Fprintf(t.out, "\n%v (%d rounds)\n", c, len(results[0])) // writes to a terminal
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = w.Write(b.Bytes())
	_ = w.Flush()
}

// addStreamCase prints a case with an additional client: the delay that it causes.
func (t *table) addStreamCase(c testCase, lines []*line, results [][]result) {
	var b bytes.Buffer
	fmt.Fprintln(&b, "line\tp99 ms alone\tbeside\tmore, by rounds\tmin–max\tp50 ms\trequests/s\tCPU µs/request, both\tMB/s beside\t")
	for i, l := range lines {
		rs := results[i]
		slower := func(r result) time.Duration { return r.p99 - r.alone }
		least := slices.MinFunc(rs, func(x, y result) int { return cmp.Compare(slower(x), slower(y)) })
		most := slices.MaxFunc(rs, func(x, y result) int { return cmp.Compare(slower(x), slower(y)) })
		fmt.Fprintf(&b, "%s\t%.2f\t%.2f\t%+.2f\t%+.2f–%+.2f\t%.2f\t%.0f\t%.1f\t%.1f\t\n", l.name,
			millis(median(rs, func(r result) time.Duration { return r.alone })), millis(median(rs, func(r result) time.Duration { return r.p99 })),
			millis(median(rs, slower)), millis(slower(least)), millis(slower(most)),
			millis(median(rs, func(r result) time.Duration { return r.p50 })),
			median(rs, func(r result) float64 { return r.rate }), micros(median(rs, func(r result) time.Duration { return r.perRequest })),
			median(rs, func(r result) float64 { return r.streamed })/1e6)
	}
	_, _ = fmt.Fprintf(t.out, "\n%v (%d rounds)\n", c, len(results[0])) // writes to a terminal
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = w.Write(b.Bytes())
	_ = w.Flush()
}

// ratio returns the CPU time of a line as a multiple of that of nginx. For a node it adds
// the maximum ratio of the case.
func ratio(c testCase, l *line, cost, nginx time.Duration) string {
	if nginx == 0 || cost == 0 {
		return "-"
	}
	text := fmt.Sprintf("%.2f", float64(cost)/float64(nginx))
	if strings.HasPrefix(l.name, "shardway") {
		text += fmt.Sprintf(" (bar %.2f)", c.maxRatio())
	}
	return text
}

// more returns the additional cost relative to the line at base, round by round, since
// other load of the machine usually lasts longer than one round.
func more(results [][]result, i, base int) string {
	if base < 0 || i == base {
		return "-"
	}
	all := make([]result, len(results[i]))
	for round, r := range results[i] {
		all[round].perRequest = r.perRequest - results[base][round].perRequest
	}
	return fmt.Sprintf("%+.2f (%+.2f to %+.2f)", micros(median(all, func(r result) time.Duration { return r.perRequest })),
		micros(slices.MinFunc(all, byCost).perRequest), micros(slices.MaxFunc(all, byCost).perRequest))
}

func byCost(a, b result) int { return cmp.Compare(a.perRequest, b.perRequest) }

// nginxCost returns the cost of nginx for comparison, or 0 without nginx.
func nginxCost(lines []*line, results [][]result) time.Duration {
	for i, l := range lines {
		if strings.HasPrefix(l.name, "nginx") {
			return median(results[i], func(r result) time.Duration { return r.perRequest })
		}
	}
	return 0
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func millis(d time.Duration) float64 { return micros(d) / 1000 }

func median[T cmp.Ordered](rs []result, of func(result) T) T {
	all := make([]T, len(rs))
	for i, r := range rs {
		all[i] = of(r)
	}
	slices.Sort(all)
	return all[len(all)/2]
}
