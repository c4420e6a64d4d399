//go:build linux

package chaos

import (
	"syscall"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/faultfs"
	"shardway/e2e/kit/history"
)

// diskSize is enough for all data of a node, in bytes.
const diskSize = 64 << 20

// fullDisk leaves no free byte on the disk of a node.
type fullDisk struct{ victim *cluster.Node }

func (*fullDisk) name() string { return "full disk" }

func (*fullDisk) unavailable() error { return faultfs.Available() }

func (f *fullDisk) begin(sc *scenario) {
	f.victim = sc.pick(anyNode)
	sc.recordFault(history.DiskFault, f.victim)
	sc.fatalIf(sc.disks[f.victim.ID].Fill())
}

// during makes the node write, and then start. Neither can succeed.
func (f *fullDisk) during(sc *scenario) {
	sc.forceWrites(f.victim)
	sc.traceExit(f.victim)
	sc.kill(f.victim)
	sc.start(f.victim)
	sc.traffic.forbidRetry(f.victim) // The node may run until its first write.
	sc.awaitLoad()
}

func (f *fullDisk) end(sc *scenario) {
	sc.fatalIf(sc.disks[f.victim.ID].Free())
	sc.restartExited(f.victim)
}

// fsyncFault makes each fsync of a node fail, or return 100 ms late.
type fsyncFault struct {
	fails  bool
	victim *cluster.Node
}

func (f *fsyncFault) name() string {
	if f.fails {
		return "fsync error"
	}
	return "fsync of 100 ms"
}

func (*fsyncFault) unavailable() error { return faultfs.Available() }

func (f *fsyncFault) begin(sc *scenario) {
	f.victim = sc.pick(anyNode)
	fault := faultfs.Fault{Delay: 100 * time.Millisecond}
	if f.fails {
		fault = faultfs.Fault{Error: syscall.EIO}
		sc.recordFault(history.DiskFault, f.victim)
	}
	sc.fatalIf(sc.disks[f.victim.ID].SetFault(fault))
}

func (f *fsyncFault) during(sc *scenario) { sc.forceWrites(f.victim) }

func (f *fsyncFault) end(sc *scenario) {
	hits, err := sc.disks[f.victim.ID].Heal()
	sc.fatalIf(err)
	sc.tracef("%d fsyncs of %s were affected", hits, f.victim.ID)
	if !f.fails {
		return
	}
	// A node exits if a write to its log fails. Other files cause no exit.
	for range 100 {
		if hits == 0 || !f.victim.Running() {
			break
		}
		sc.wait(20 * time.Millisecond)
	}
	sc.restartExited(f.victim)
}

// forceWrites makes the nodes write, which they do not while nothing changes. A change of
// leadership writes votes and a shard map round.
func (sc *scenario) forceWrites(victim *cluster.Node) {
	for range 2 {
		for _, n := range sc.others(victim) {
			if !n.Running() {
				continue
			}
			if err := n.Try(sc.Context(), "step-down", nil); err != nil {
				sc.tracef("step-down at %s: %v", n.ID, err)
				continue
			}
			sc.tracef("the leader stepped down")
			break
		}
		sc.awaitLoad()
	}
}
