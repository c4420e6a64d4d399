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

// Run gives memory back while the process rests, until ctx ends. It looks by the beats of p.
// Where the platform does not tell what a process uses of processors it returns at once. One
// goroutine of a process calls Run: what it holds is one number.
func Run(ctx context.Context, p *clock.Pulse, log zerolog.Logger) {
	process{used: clock.Used, use: newReader().read, give: giveBack}.run(ctx, p, log)
}

// giveBack releases unused memory. The runtime needs about 50 ms for each GiB and does not stop the
// process, but it occupies one processor, and an idle process uses only one. So a second is allowed.
func giveBack() {
	defer processors.AtLeast(2)()
	debug.FreeOSMemory()
}

// process is what Run looks at, and what it does.
type process struct {
	used func() (time.Duration, bool) // processor time so far; false: not known
	use  func() Use
	give func()
}

func (x process) run(ctx context.Context, p *clock.Pulse, log zerolog.Logger) {
	used, known := x.used()
	if !known {
		return
	}
	t := p.Every(look)
	defer t.Stop()
	began := time.Now()
	k := NewKeeper(0, used)
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		used, _ = x.used()
		before := x.use()
		if !k.Look(time.Since(began), used, before) {
			continue
		}
		x.give()
		after := x.use()
		k.Kept(time.Since(began), after)
		log.Debug().Uint64("before", before.Held).Uint64("after", after.Held).Msg("memory returned to the system")
	}
}

// reader reads what the runtime says of its memory.
type reader []metrics.Sample

// What a reader reads. All but the first is held.
const (
	live    = "/gc/heap/live:bytes"
	objects = "/memory/classes/heap/objects:bytes"
	unused  = "/memory/classes/heap/unused:bytes"
	free    = "/memory/classes/heap/free:bytes"
)

func newReader() reader { return reader{{Name: live}, {Name: objects}, {Name: unused}, {Name: free}} }

func (r reader) read() Use {
	metrics.Read(r)
	var u Use
	for i := range r {
		if r[i].Value.Kind() != metrics.KindUint64 {
			return Use{} // this runtime does not say: nothing is given back
		}
		if v := r[i].Value.Uint64(); i == 0 {
			u.Live = v
		} else {
			u.Held += v
		}
	}
	return u
}
