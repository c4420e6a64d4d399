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

// run runs a process for d by a pulse of its own.
func run(x process, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var p clock.Scheduler
	var wg sync.WaitGroup
	wg.Go(func() { p.Run(ctx) })
	wg.Go(func() { x.run(ctx, &p, zerolog.Nop()) })
	wg.Wait()
}

func TestIdleProcessReleasesMemoryOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, given := Usage{Live: 50 << 20, Held: 100 << 20}, 0
		run(process{
			cpuTime: func() (time.Duration, bool) { return 0, true },
			usage:   func() Usage { return u },
			release: func() { given++; u.Held = 51 << 20 },
		}, time.Hour)
		if given != 1 {
			t.Errorf("given back %d times in an hour, want once", given)
		}
	})
}

func TestUnknownUseOfProcessorsEndsIt(t *testing.T) {
	x := process{cpuTime: func() (time.Duration, bool) { return 0, false }}
	x.run(t.Context(), nil, zerolog.Nop()) // returns, and looks at nothing
}

// What the runtime says is read for what it is: garbage is held and not live.
func TestUseOfThisProcess(t *testing.T) {
	r := newReader()
	runtime.GC()
	before := r.read()
	if before.Live == 0 || before.Held < before.Live {
		t.Fatalf("%+v, want some in use, and no more than is held", before)
	}
	const size = 64 << 20
	b := make([]byte, size)
	for i := range b {
		b[i] = 1
	}
	runtime.GC()
	if u := r.read(); u.Live < before.Live+size/2 {
		t.Errorf("%+v with 64 MiB more in use, and %+v before", u, before)
	}
	runtime.KeepAlive(b)
	for range 100 {
		if debug.FreeOSMemory(); r.read().Held < before.Held+size/2 {
			return
		}
	}
	t.Errorf("%+v is held, after %+v before", r.read(), before)
}
