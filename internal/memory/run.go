package memory

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/clock"
	"shardway/internal/processors"
)

// Run returns unused memory to the system while the process is idle, until ctx ends. It checks the
// process at ticks of the scheduler. If the platform does not report the CPU time of a process, Run
// returns immediately. Only one goroutine of a process may call Run, because memory usage is a
// property of the whole process.
func Run(ctx context.Context, scheduler *clock.Scheduler, log zerolog.Logger) {
	process{cpuTime: clock.CPUTime, usage: newMetricsReader().read, release: releaseUnused}.run(ctx, scheduler, log)
}

// releaseUnused releases unused memory. The runtime needs about 50 ms for each GiB. This does not
// stop the process, but occupies one processor, and an idle process uses only one, so a second one
// is allowed in the meantime.
func releaseUnused() {
	defer processors.AtLeast(2)()
	debug.FreeOSMemory()
}

// process contains the functions with which Run observes the process and releases its memory. Tests
// replace them to simulate a process.
type process struct {
	cpuTime func() (time.Duration, bool) // CPU time so far; false means not known
	usage   func() Usage                 // memory usage now
	release func()                       // returns unused memory to the operating system
}

// run releases unused memory to the operating system whenever the policy requires it, until ctx ends.
func (p process) run(ctx context.Context, scheduler *clock.Scheduler, log zerolog.Logger) {
	used, known := p.cpuTime()
	if !known {
		return
	}
	ticker := scheduler.NewTicker(checkInterval)
	defer ticker.Stop()
	start := time.Now()
	policy := NewReleasePolicy(0, used)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		used, _ = p.cpuTime()
		before := p.usage()
		if !policy.ShouldRelease(time.Since(start), used, before) {
			continue
		}
		p.release()
		after := p.usage()
		policy.RecordRelease(time.Since(start), after)
		log.Debug().Uint64("before", before.HeapReserved).Uint64("after", after.HeapReserved).Msg("memory returned to the system")
	}
}

// metricsReader reads memory metrics of the runtime.
type metricsReader []metrics.Sample

// Names of runtime metrics. Usage.Live is the first one, and Usage.HeapReserved the sum of the
// others.
const (
	metricHeapLive    = "/gc/heap/live:bytes"
	metricHeapObjects = "/memory/classes/heap/objects:bytes"
	metricHeapUnused  = "/memory/classes/heap/unused:bytes"
	metricHeapFree    = "/memory/classes/heap/free:bytes"
)

// newMetricsReader returns a reader of the metrics, metricHeapLive first.
func newMetricsReader() metricsReader {
	return metricsReader{{Name: metricHeapLive}, {Name: metricHeapObjects}, {Name: metricHeapUnused}, {Name: metricHeapFree}}
}

// read returns the current usage.
func (r metricsReader) read() Usage {
	metrics.Read(r)
	var usage Usage
	for i := range r {
		if r[i].Value.Kind() != metrics.KindUint64 {
			return Usage{} // this runtime lacks the metric, and zero usage means that no memory is released
		}
		if bytes := r[i].Value.Uint64(); i == 0 {
			usage.Live = bytes
		} else {
			usage.HeapReserved += bytes
		}
	}
	return usage
}
