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
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease") // omitted if the file does not exist
	var buf bytes.Buffer
	fmt.Fprintf(&buf, "%d × %s, Linux %s, %s\n", runtime.NumCPU(), processorModel(), bytes.TrimSpace(release), runtime.Version())
	for _, setup := range setups {
		if setup.version != "" {
			fmt.Fprintf(&buf, "%s: %s\n", setup.name, setup.version)
		}
	}
	_, _ = t.out.Write(buf.Bytes()) // writes to a terminal
}

// processorModel returns the name of the first processor of the machine.
func processorModel() string {
	data, _ := os.ReadFile("/proc/cpuinfo") // exists on every Linux
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// printAligned prints a title and rows, whose cells end with tabs, as a table with aligned columns.
func (t *table) printAligned(title string, rows []byte) {
	_, _ = fmt.Fprintf(t.out, "\n%s\n", title) // writes to a terminal
	tabs := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = tabs.Write(rows)
	_ = tabs.Flush()
}

// printCase prints the results of a case: the medians of the rounds, and the range of the CPU
// time. results contains the measurements by setup and round.
func (t *table) printCase(test testCase, setups []*setup, results [][]result) {
	title := fmt.Sprintf("%v (%d rounds)", test, len(results[0]))
	if test.stream != 0 {
		t.printAligned(title, streamRows(setups, results))
		return
	}
	var rows bytes.Buffer
	against := "× nginx"
	if test.withMetricsAndLogs {
		against = "µs more (min to max)"
	}
	fmt.Fprintf(&rows, "line\tCPU µs/request\tmin–max\t%s\trequests/s\tp50 ms\tp99 ms\tRSS MiB\t\n", against)
	nginx := nginxCost(setups, results)
	unobservedIndex := slices.IndexFunc(setups, func(s *setup) bool { return s.name == unobserved })
	for i, setup := range setups {
		measured := results[i]
		cost := median(measured, cpuPerRequestOf)
		comparison := ratio(test, setup, cost, nginx)
		if test.withMetricsAndLogs {
			comparison = addedCost(results, i, unobservedIndex)
		}
		lowest, highest := bounds(measured, cpuPerRequestOf)
		fmt.Fprintf(&rows, "%s\t%.1f\t%.1f–%.1f\t%s\t%.0f\t%.2f\t%.2f\t%.1f\t\n",
			setup.name, micros(cost), micros(lowest), micros(highest), comparison, median(measured, rateOf),
			millis(median(measured, p50Of)), millis(median(measured, p99Of)), mebibytes(median(measured, rssOf)))
	}
	t.printAligned(title, rows.Bytes())
}

// streamRows returns the rows of a case with an additional client: the delay that it causes.
func streamRows(setups []*setup, results [][]result) []byte {
	var rows bytes.Buffer
	fmt.Fprintln(&rows, "line\tp99 ms alone\tbeside\tmore, by rounds\tmin–max\tp50 ms\trequests/s\tCPU µs/request, both\tMB/s beside\t")
	for i, setup := range setups {
		measured := results[i]
		lowest, highest := bounds(measured, addedDelay)
		fmt.Fprintf(&rows, "%s\t%.2f\t%.2f\t%+.2f\t%+.2f–%+.2f\t%.2f\t%.0f\t%.1f\t%.1f\t\n",
			setup.name, millis(median(measured, p99AloneOf)), millis(median(measured, p99Of)),
			millis(median(measured, addedDelay)), millis(lowest), millis(highest),
			millis(median(measured, p50Of)), median(measured, rateOf), micros(median(measured, cpuPerRequestOf)),
			median(measured, streamRateOf)/1e6)
	}
	return rows.Bytes()
}

// Values of one measurement, for median and bounds.

func cpuPerRequestOf(measured result) time.Duration { return measured.cpuPerRequest }
func rateOf(measured result) float64                { return measured.rate }
func p50Of(measured result) time.Duration           { return measured.p50 }
func p99Of(measured result) time.Duration           { return measured.p99 }
func p99AloneOf(measured result) time.Duration      { return measured.p99Alone }
func rssOf(measured result) int64                   { return measured.rss }
func streamRateOf(measured result) float64          { return measured.streamRate }

// addedDelay returns by how much the additional client increased the 99th percentile.
func addedDelay(measured result) time.Duration { return measured.p99 - measured.p99Alone }

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
	lowest, highest := bounds(differences, cpuPerRequestOf)
	return fmt.Sprintf("%+.2f (%+.2f to %+.2f)", micros(median(differences, cpuPerRequestOf)), micros(lowest), micros(highest))
}

// nginxCost returns the CPU time per request of nginx, or zero if nginx was not measured.
func nginxCost(setups []*setup, results [][]result) time.Duration {
	for i, setup := range setups {
		if strings.HasPrefix(setup.name, "nginx") {
			return median(results[i], cpuPerRequestOf)
		}
	}
	return 0
}

func micros(duration time.Duration) float64 { return float64(duration) / float64(time.Microsecond) }
func millis(duration time.Duration) float64 { return micros(duration) / 1000 }
func mebibytes(bytes int64) float64         { return float64(bytes) / (1 << 20) }

// median returns the median of one value of the measurements.
func median[T cmp.Ordered](measurements []result, value func(result) T) T {
	sorted := make([]T, len(measurements))
	for i, measured := range measurements {
		sorted[i] = value(measured)
	}
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

// bounds returns the lowest and the highest value of the measurements.
func bounds[T cmp.Ordered](measurements []result, value func(result) T) (lowest, highest T) {
	lowest, highest = value(measurements[0]), value(measurements[0])
	for _, measured := range measurements[1:] {
		lowest, highest = min(lowest, value(measured)), max(highest, value(measured))
	}
	return lowest, highest
}
