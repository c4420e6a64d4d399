package node_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"shardway/node"
)

// A memory of other disks that could not be written stopped the node, though nothing
// rests on it but what it would know after its next start. It goes on, says so once,
// and tries again.
func TestMemoryOfDisksThatIsNotWrittenStopsNobody(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		log := &lines{}
		w.tune = func(o *node.Options) { o.Log = zerolog.New(log) }
		p := w.follower()
		p.kill()
		var tries atomic.Int32
		p.mem.SetFileFault(func(name string) error {
			if name != "known.json" {
				return nil
			}
			tries.Add(1)
			return errors.New("no space left on device")
		})
		p.restart()
		w.untilSettled("a", "b", "c")
		w.until("it is tried again", func() bool { return tries.Load() > 2 })
		if n := log.count("memory of other disks not written"); p.ended() || n != 1 {
			w.t.Errorf("ended: %v (%v), said %d times, want it to go on and to say so once", p.ended(), p.err, n)
		}
		p.mem.SetFileFault(nil)
		w.until("it says that it is written", func() bool { return log.count("memory of other disks written again") == 1 })
		p.kill()
		d, err := p.mem.Open(p.name)
		if err != nil {
			w.t.Fatal(err)
		}
		if known, err := d.Known(); err != nil || len(known) != 2 {
			w.t.Errorf("it keeps %v, %v, want the two others", known, err)
		}
		_ = d.Close()
	})
}
