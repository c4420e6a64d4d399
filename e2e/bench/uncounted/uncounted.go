// Package uncounted builds Shardway without request metrics and request timing. Their cost
// is the difference between this binary and the released one.
//
// It uses the -overlay flag of the go command, like the planted bugs of tests; the source
// itself does not contain the change. It removes all metrics and load statistics by shard
// and key (GET /v1/hot) of a request that is served at once. It keeps the metrics of
// queued, retried and failed requests, which do not occur in the benchmark.
//
// The version of the binary reports the change.
package uncounted

import "shardway/internal/overlay"

// VersionNote is the part of the version text that distinguishes such a binary.
const VersionNote = "BUILT WITHOUT METRICS OF REQUESTS for benches, not for use"

// edits returns the source edits that remove the metrics. Some of them insert a return
// statement, so that the rest of the function is never executed.
func edits() []overlay.Edit {
	return []overlay.Edit{
		{Decl: "proxy/metrics.Metrics.CountResponse", Old: "if index := code - firstStatus; index >= 0", New: "if index := code - firstStatus; false && index >= 0"},
		{Decl: "proxy/metrics.Metrics.ObserveDuration", Old: "m.requestDurations[kind][class].Observe(elapsed)", New: ""},
		begin("internal/nativehist.Histogram.Observe", "func (h *Histogram) Observe(d time.Duration) {\n", "\treturn\n"),
		{Decl: "proxy.client.beginExchange", Old: "startedAt:    c.server.clock.Exact(),\n", New: "startedAt:    0,\n"},
		begin("proxy.attemptRunner.startTimer", "func (runner *attemptRunner) startTimer() (startedAt time.Duration, sent int64) {\n", "\treturn 0, 0\n"),
		begin("proxy.attemptRunner.recordRun", "func (runner *attemptRunner) recordRun(attempt *attempt, result decision, startedAt time.Duration, sent int64) {\n", "\treturn\n"),
		{Decl: "proxy.client.HandleResponse", Old: "c.server.metrics.EventLoopRequests.Add(1)\n", New: ""},
		begin("proxy/loadstats.Collector.Sample", "func (c *Collector) Sample(key []byte) *Sample {\n", "\treturn nil\n"),
		begin("internal/cli.versionCommand.Run", "text := build.String()\n", "\ttext += \", "+VersionNote+"\"\n"),
	}
}

func begin(decl, text, more string) overlay.Edit {
	return overlay.Edit{Decl: decl, Old: text, New: text + more}
}

// Overlay writes the files of the overlay into dir and returns the argument of go build
// -overlay. root is the root of the module. It fails if the source text of an edit has
// changed.
func Overlay(root, dir string) (string, error) {
	files := overlay.New(root)
	for _, edit := range edits() {
		if err := files.Edit(edit); err != nil {
			return "", err
		}
	}
	return files.Write(dir)
}
