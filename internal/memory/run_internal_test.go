package memory

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/clock"
)

// runFor runs a process with its own scheduler for a duration.
func runFor(duration time.Duration, simulated process) {
	ctx, cancel := context.WithTimeout(context.Background(), duration)
	defer cancel()
	var scheduler clock.Scheduler
	var wg sync.WaitGroup
	wg.Go(func() { scheduler.Run(ctx) })
	wg.Go(func() { simulated.run(ctx, &scheduler, zerolog.Nop()) })
	wg.Wait()
}

func TestIdleProcessReleasesMemoryOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		usage, releases := Usage{Live: 50 << 20, HeapReserved: 100 << 20}, 0
		runFor(time.Hour, process{
			cpuTime: func() (time.Duration, bool) { return 0, true },
			usage:   func() Usage { return usage },
			release: func() { releases++; usage.HeapReserved = 51 << 20 },
		})
		if releases != 1 {
			t.Errorf("%d releases in an hour, want 1", releases)
		}
	})
}

func TestRunReturnsWithoutKnownCPUTime(t *testing.T) {
	simulated := process{cpuTime: func() (time.Duration, bool) { return 0, false }}
	simulated.run(t.Context(), nil, zerolog.Nop())
}

// Garbage counts as held memory, and not as live memory.
func TestUsageOfThisProcessIsRead(t *testing.T) {
	r := newMetricsReader()
	runtime.GC()
	before := r.read()
	if before.Live == 0 || before.HeapReserved < before.Live {
		t.Fatalf("%+v, want live memory that is at most the held memory", before)
	}
	const size = 64 << 20
	b := make([]byte, size)
	for i := range b {
		b[i] = 1
	}
	runtime.GC()
	if u := r.read(); u.Live < before.Live+size/2 {
		t.Errorf("%+v with 64 MiB more live memory, %+v before", u, before)
	}
	runtime.KeepAlive(b)
	for range 100 {
		debug.FreeOSMemory()
		if r.read().HeapReserved < before.HeapReserved+size/2 {
			return
		}
	}
	t.Errorf("%+v after the release of 64 MiB, %+v before", r.read(), before)
}
