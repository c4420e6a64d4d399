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

// printMachine prints the processor, the kernel and the versions of the measured programs.
func (t *table) printMachine(setups []*setup) {
	model := "unknown processor"
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease") // omitted if the file does not exist
	var buf bytes.Buffer
	fmt.Fprintf(&buf, "%d × %s, Linux %s, %s\n", runtime.NumCPU(), model, bytes.TrimSpace(release), runtime.Version())
	for _, setup := range setups {
		if setup.version != "" {
			fmt.Fprintf(&buf, "%s: %s\n", setup.name, setup.version)
		}
	}
	_, _ = t.out.Write(buf.Bytes()) // writes to a terminal
}

// printCase prints the results of a case: the medians of the rounds, and the range of the CPU
// time.
func (t *table) printCase(tc testCase, setups []*setup, results [][]result) {
	if tc.stream != 0 {
		t.printStreamCase(tc, setups, results)
		return
	}
	var buf bytes.Buffer
	against := "× nginx"
	if tc.observed {
		against = "µs more (min to max)"
	}
	fmt.Fprintf(&buf, "line\tCPU µs/request\tmin–max\t%s\trequests/s\tp50 ms\tp99 ms\tRSS MiB\t\n", against)
	nginx, base := nginxCost(setups, results), slices.IndexFunc(setups, func(s *setup) bool { return s.name == unobserved })
	for i, setup := range setups {
		measurements := results[i]
		cost := median(measurements, func(measured result) time.Duration { return measured.cpuPerRequest })
		compared := ratio(tc, setup, cost, nginx)
		if tc.observed {
			compared = addedCost(results, i, base)
		}
		fmt.Fprintf(&buf, "%s\t%.1f\t%.1f–%.1f\t%s\t%.0f\t%.2f\t%.2f\t%.1f\t\n", setup.name, micros(cost),
			micros(slices.MinFunc(measurements, byCost).cpuPerRequest), micros(slices.MaxFunc(measurements, byCost).cpuPerRequest), compared,
			median(measurements, func(measured result) float64 { return measured.rate }),
			micros(median(measurements, func(measured result) time.Duration { return measured.p50 }))/1000,
			micros(median(measurements, func(measured result) time.Duration { return measured.p99 }))/1000,
			float64(median(measurements, func(measured result) int64 { return measured.rss }))/(1<<20))
	}
	_, _ = fmt.Fprintf(t.out, "\n%v (%d rounds)\n", tc, len(results[0])) // writes to a terminal
	tabs := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = tabs.Write(buf.Bytes())
	_ = tabs.Flush()
}

// printStreamCase prints a case with an additional client: the delay that it causes.
func (t *table) printStreamCase(tc testCase, setups []*setup, results [][]result) {
	var buf bytes.Buffer
	fmt.Fprintln(&buf, "line\tp99 ms alone\tbeside\tmore, by rounds\tmin–max\tp50 ms\trequests/s\tCPU µs/request, both\tMB/s beside\t")
	for i, setup := range setups {
		measurements := results[i]
		slower := func(measured result) time.Duration { return measured.p99 - measured.p99Alone }
		least := slices.MinFunc(measurements, func(x, y result) int { return cmp.Compare(slower(x), slower(y)) })
		most := slices.MaxFunc(measurements, func(x, y result) int { return cmp.Compare(slower(x), slower(y)) })
		fmt.Fprintf(&buf, "%s\t%.2f\t%.2f\t%+.2f\t%+.2f–%+.2f\t%.2f\t%.0f\t%.1f\t%.1f\t\n", setup.name,
			millis(median(measurements, func(measured result) time.Duration { return measured.p99Alone })), millis(median(measurements, func(measured result) time.Duration { return measured.p99 })),
			millis(median(measurements, slower)), millis(slower(least)), millis(slower(most)),
			millis(median(measurements, func(measured result) time.Duration { return measured.p50 })),
			median(measurements, func(measured result) float64 { return measured.rate }), micros(median(measurements, func(measured result) time.Duration { return measured.cpuPerRequest })),
			median(measurements, func(measured result) float64 { return measured.streamRate })/1e6)
	}
	_, _ = fmt.Fprintf(t.out, "\n%v (%d rounds)\n", tc, len(results[0])) // writes to a terminal
	tabs := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = tabs.Write(buf.Bytes())
	_ = tabs.Flush()
}

// ratio returns the CPU time of a setup as a multiple of that of nginx. For a node it adds
// the maximum ratio of the case.
func ratio(tc testCase, setup *setup, cost, nginx time.Duration) string {
	if nginx == 0 || cost == 0 {
		return "-"
	}
	text := fmt.Sprintf("%.2f", float64(cost)/float64(nginx))
	if strings.HasPrefix(setup.name, "shardway") {
		text += fmt.Sprintf(" (bar %.2f)", tc.maxRatio())
	}
	return text
}

// addedCost returns the additional CPU time per request of a setup, compared with the setup at
// baseIndex. It compares round by round, because other load of the machine usually lasts longer than
// one round.
func addedCost(results [][]result, setupIndex, baseIndex int) string {
	if baseIndex < 0 || setupIndex == baseIndex {
		return "-"
	}
	differences := make([]result, len(results[setupIndex]))
	for round, measured := range results[setupIndex] {
		differences[round].cpuPerRequest = measured.cpuPerRequest - results[baseIndex][round].cpuPerRequest
	}
	return fmt.Sprintf("%+.2f (%+.2f to %+.2f)", micros(median(differences, func(difference result) time.Duration { return difference.cpuPerRequest })),
		micros(slices.MinFunc(differences, byCost).cpuPerRequest), micros(slices.MaxFunc(differences, byCost).cpuPerRequest))
}

// byCost orders results by their CPU time per request.
func byCost(a, b result) int { return cmp.Compare(a.cpuPerRequest, b.cpuPerRequest) }

// nginxCost returns the CPU time per request of nginx, or zero if nginx was not measured.
func nginxCost(setups []*setup, results [][]result) time.Duration {
	for i, setup := range setups {
		if strings.HasPrefix(setup.name, "nginx") {
			return median(results[i], func(measured result) time.Duration { return measured.cpuPerRequest })
		}
	}
	return 0
}

func micros(duration time.Duration) float64 { return float64(duration) / float64(time.Microsecond) }
func millis(duration time.Duration) float64 { return micros(duration) / 1000 }

// median returns the median of one value of the measurements.
func median[T cmp.Ordered](measurements []result, value func(result) T) T {
	sorted := make([]T, len(measurements))
	for i, measured := range measurements {
		sorted[i] = value(measured)
	}
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}
