//go:build linux

package chaos

import (
	"syscall"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/faultfs"
	"shardway/e2e/kit/history"
)

// diskSize is enough for all that a node keeps.
const diskSize = 64 << 20

// fullDisk leaves a node not a byte.
type fullDisk struct{ victim *cluster.Node }

func (*fullDisk) name() string { return "full disk" }

func (*fullDisk) missing() error { return faultfs.Available() }

func (f *fullDisk) begin(w *world) {
	f.victim = w.pick(anybody)
	w.hurt(history.DiskFault, f.victim)
	w.must(w.disks[f.victim.ID].Fill())
}

// during has it write, and then start, which it cannot.
func (f *fullDisk) during(w *world) {
	w.churn(f.victim)
	w.ended(f.victim)
	w.kill(f.victim)
	w.start(f.victim)
	w.traffic.forbidRetry(f.victim) // it may run until it has to write
	w.flow()
}

func (f *fullDisk) end(w *world) {
	w.must(w.disks[f.victim.ID].Free())
	w.revive(f.victim)
}

// fsync makes the disk of a node answer each fsync with an error, or 100 ms late.
type fsync struct {
	fails  bool
	victim *cluster.Node
}

func (f *fsync) name() string {
	if f.fails {
		return "fsync error"
	}
	return "fsync of 100 ms"
}

func (*fsync) missing() error { return faultfs.Available() }

func (f *fsync) begin(w *world) {
	f.victim = w.pick(anybody)
	fault := faultfs.Fault{Delay: 100 * time.Millisecond}
	if f.fails {
		fault = faultfs.Fault{Error: syscall.EIO}
		w.hurt(history.DiskFault, f.victim)
	}
	w.must(w.disks[f.victim.ID].Suffer(fault))
}

func (f *fsync) during(w *world) { w.churn(f.victim) }

func (f *fsync) end(w *world) {
	hits, err := w.disks[f.victim.ID].Heal()
	w.must(err)
	w.note("%d fsyncs of %s were hit", hits, f.victim.ID)
	if !f.fails {
		return
	}
	// A node ends when its log cannot be written; there are other files.
	for range 100 {
		if hits == 0 || !f.victim.Running() {
			break
		}
		w.wait(20 * time.Millisecond)
	}
	w.revive(f.victim)
}

// churn makes the nodes write, which they do not while nothing changes: leadership
// changes, and with it votes and a round.
func (w *world) churn(victim *cluster.Node) {
	for range 2 {
		for _, n := range w.others(victim) {
			if !n.Running() {
				continue
			}
			if err := n.Try(w.Context(), "step-down", nil); err != nil {
				w.note("step-down at %s: %v", n.ID, err)
				continue
			}
			w.note("the leader stepped down")
			break
		}
		w.flow()
	}
}
