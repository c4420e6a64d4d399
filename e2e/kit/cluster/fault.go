//go:build linux

package cluster

import (
	"slices"
	"time"

	"shardway/e2e/kit/history"
)

// Faults returns the faults that the test has injected so far, and the periods in which the
// machine had no CPU time for the test or for a node (history.Stalled).
func (c *Cluster) Faults() []history.Fault { return slices.Concat(c.faults, c.stalls.recordedFaults()) }

// CPUWaits returns the periods in which threads of nodes waited for a processor.
func (c *Cluster) CPUWaits() []history.CPUWait { return c.stalls.recordedWaits() }

// StarvedTime returns the total time after since, a value of history.Now, in which the machine
// had no CPU time for the test or for a node.
func (c *Cluster) StarvedTime(since int64) (total time.Duration) {
	for _, fault := range c.stalls.recordedFaults() {
		if fault.Until > since {
			total += time.Duration(fault.Until - max(fault.From, since))
		}
	}
	return total
}

// RecordFault records a fault that a test injects by other means. The fault lasts from now until
// endFault is called.
func (c *Cluster) RecordFault(fault history.Fault) (endFault func()) {
	index := len(c.faults)
	fault.From = history.Now()
	c.faults = append(c.faults, fault)
	return func() { c.faults[index].Until = history.Now() }
}

// RecordFault records a fault of the node. The fault lasts from now until endFault is called.
func (n *Node) RecordFault(kind history.FaultKind) (endFault func()) {
	return n.cluster.RecordFault(history.Fault{Kind: kind, Node: n.ID})
}

// RecordUnreachableExceptFromLeader records that only the leader reaches a node, from now until endFault is called. The
// function restored records that the network is restored.
func (c *Cluster) RecordUnreachableExceptFromLeader(node *Node) (endFault, restored func()) {
	index := len(c.faults)
	endFault = c.RecordFault(history.Fault{Kind: history.Unreachable, Node: node.ID, ReachedByLeader: true})
	return endFault, func() { c.faults[index].RestoredAt = history.Now() }
}

// RecordDrain records that the node should own no shards from now until endDrain is called.
func (n *Node) RecordDrain() (endDrain func()) {
	cluster, index := n.cluster, len(n.cluster.drains)
	cluster.drains = append(cluster.drains, history.Drain{Node: n.ID, From: history.Now()})
	return func() { cluster.drains[index].Until = history.Now() }
}

// beginFault records a fault of the process of a node. It ends the current fault of that process,
// unless both have the same kind: then the current fault continues.
func (c *Cluster) beginFault(node *Node, kind history.FaultKind) {
	if node.faultIndex >= 0 && c.faults[node.faultIndex].Kind == kind {
		return
	}
	c.endFault(node)
	node.faultIndex = len(c.faults)
	c.faults = append(c.faults, history.Fault{Kind: kind, Node: node.ID, From: history.Now()})
}

// recordExit records that the process of a node has certainly ended. A process that the test did
// not stop counts as killed, because a crash or a disk fault ended it. A process that failed also
// counts as killed, even if it was terminating or was killed just afterwards.
func (c *Cluster) recordExit(node *Node) {
	exit := node.exitOfProcess()
	if node.faultIndex < 0 || exit.isUnexpectedDuring(c.faults[node.faultIndex].Kind) {
		c.beginFault(node, history.Killed)
		killed := &c.faults[node.faultIndex]
		killed.From = min(killed.From, exit.at)
	}
	if fault := &c.faults[node.faultIndex]; exit.hasFailed && fault.LatestExit == 0 {
		fault.From, fault.HoldsShards = min(fault.From, exit.closedAt), exit.holdsShards
	}
	for i := range c.faults {
		fault := &c.faults[i]
		isDiskFault := fault.Kind == history.DiskFault && fault.Node == node.ID && fault.Until == 0
		if fault.LatestExit == 0 && (i == node.faultIndex || isDiskFault) {
			fault.LatestExit = max(exit.at, fault.From)
		}
	}
}

// exitOfProcess returns how the current process of the node ended. Its time is now if the exit was not
// observed.
func (n *Node) exitOfProcess() processExit {
	now := history.Now()
	if n.process == nil {
		return processExit{at: now, closedAt: now}
	}
	if n.process.Running() {
		return n.process.exit(now)
	}
	return n.process.exit(min(now, n.process.exitedAt))
}

// isUnexpectedDuring reports whether a fault of the given kind does not explain the exit, so that the
// process counts as killed.
func (e *processExit) isUnexpectedDuring(kind history.FaultKind) bool {
	return kind == history.Paused || e.hasFailed && kind == history.Terminated
}

// endFault records that the fault of the process of a node has ended, because it runs again.
func (c *Cluster) endFault(node *Node) {
	if node.faultIndex >= 0 {
		c.faults[node.faultIndex].Until = history.Now()
		node.faultIndex = -1
	}
}
