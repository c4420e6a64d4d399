//go:build linux

package chaos

import (
	"syscall"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/faultfs"
	"shardway/e2e/kit/history"
)

// diskSize is the size of the disk of each node in bytes. It suffices for all data of a
// node.
const diskSize = 64 << 20

// fullDisk fills the disk of a node completely.
type fullDisk struct{ victim *cluster.Node }

func (*fullDisk) name() string { return "full disk" }

func (*fullDisk) unavailable() error { return faultfs.Available() }

func (f *fullDisk) begin(sc *scenario) {
	f.victim = sc.pickNode(anyNode)
	sc.recordFault(history.DiskFault, f.victim)
	sc.fatalIf(sc.disks[f.victim.ID].Fill())
}

// whileActive makes the node write, and then restarts it. The writes, also those of the new process, must
// fail because the disk is full.
func (f *fullDisk) whileActive(sc *scenario) {
	sc.forceWrites(f.victim)
	sc.traceExit(f.victim)
	sc.killNode(f.victim)
	sc.startNode(f.victim)
	sc.traffic.forbidRetry(f.victim) // The node may run until its first write.
	sc.awaitLoad()
}

func (f *fullDisk) end(sc *scenario) {
	sc.fatalIf(sc.disks[f.victim.ID].RemoveFiller())
	sc.restartExited(f.victim)
}

const (
	// exitTimeout limits the wait for the exit of a node whose fsync failed, and exitPollInterval is the interval of
	// the checks.
	exitTimeout      = 2 * time.Second
	exitPollInterval = 20 * time.Millisecond
)

// fsyncFault makes each fsync of a node fail, or return 100 ms late.
type fsyncFault struct {
	returnsError bool
	victim       *cluster.Node
}

func (f *fsyncFault) name() string {
	if f.returnsError {
		return "fsync error"
	}
	return "fsync of 100 ms"
}

func (*fsyncFault) unavailable() error { return faultfs.Available() }

func (f *fsyncFault) begin(sc *scenario) {
	f.victim = sc.pickNode(anyNode)
	fault := faultfs.Fault{Delay: 100 * time.Millisecond}
	if f.returnsError {
		fault = faultfs.Fault{Error: syscall.EIO}
		sc.recordFault(history.DiskFault, f.victim)
	}
	sc.fatalIf(sc.disks[f.victim.ID].SetFault(fault))
}

func (f *fsyncFault) whileActive(sc *scenario) { sc.forceWrites(f.victim) }

// end repairs the disk. If a write of the Raft log failed, the node exits within 2 s, and end starts it again.
func (f *fsyncFault) end(sc *scenario) {
	hits, err := sc.disks[f.victim.ID].Heal()
	sc.fatalIf(err)
	sc.tracef("%d fsyncs of %s were affected", hits, f.victim.ID)
	if !f.returnsError {
		return
	}
	// A node exits if a write to its log fails. Other files cause no exit.
	for exitDeadline := time.Now().Add(exitTimeout); hits > 0 && f.victim.Running() && time.Now().Before(exitDeadline); {
		sc.sleep(exitPollInterval)
	}
	sc.restartExited(f.victim)
}

// forceWrites makes all nodes write to disk. Nodes write only when their state changes, so the leader
// steps down twice. A change of leadership writes votes and the log entries of a map change.
func (sc *scenario) forceWrites(victim *cluster.Node) {
	for range 2 {
		for _, node := range sc.membersExcept(victim) {
			if !node.Running() {
				continue
			}
			if err := node.TryAction(sc.Context(), "step-down", nil); err != nil {
				sc.tracef("step-down at %s: %v", node.ID, err)
				continue
			}
			sc.tracef("the leader stepped down")
			break
		}
		sc.awaitLoad()
	}
}
