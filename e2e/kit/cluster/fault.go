//go:build linux

package cluster

import (
	"slices"
	"time"

	"shardway/e2e/kit/history"
)

// Faults returns the injected faults. Faults of a process, its app or its disk are recorded when
// they are injected. The list includes the periods in which the machine had no CPU time.
func (c *Cluster) Faults() []history.Fault { return slices.Concat(c.faults, c.stalls.recordedFaults()) }

// CPUWaits returns how long the nodes waited for processors.
func (c *Cluster) CPUWaits() []history.CPUWait { return c.stalls.recordedWaits() }

// StarvedTime returns the total time since then in which the machine had no CPU time for the
// test or for a node.
func (c *Cluster) StarvedTime(since int64) (total time.Duration) {
	for _, fault := range c.stalls.recordedFaults() {
		if fault.Until > since {
			total += time.Duration(fault.Until - max(fault.From, since))
		}
	}
	return total
}

// RecordFault records a fault that a test injects by other means, from now on until ended
// is called.
func (c *Cluster) RecordFault(fault history.Fault) (endFault func()) {
	index := len(c.faults)
	fault.From = history.Now()
	c.faults = append(c.faults, fault)
	return func() { c.faults[index].Until = history.Now() }
}

// RecordFault records a fault of the node, from now on until ended is called.
func (n *Node) RecordFault(kind history.FaultKind) (endFault func()) {
	return n.cluster.RecordFault(history.Fault{Kind: kind, Node: n.ID})
}

// RecordDrain records that the node should own no shards, from now on until ended is called.
func (n *Node) RecordDrain() (endDrain func()) {
	cluster, index := n.cluster, len(n.cluster.drains)
	cluster.drains = append(cluster.drains, history.Drain{Node: n.ID, From: history.Now()})
	return func() { cluster.drains[index].Until = history.Now() }
}

// beginFault records a fault of the process of a node, which replaces its current fault.
func (c *Cluster) beginFault(node *Node, kind history.FaultKind) {
	if node.faultIndex >= 0 && c.faults[node.faultIndex].Kind == kind {
		return
	}
	c.endFault(node)
	node.faultIndex = len(c.faults)
	c.faults = append(c.faults, history.Fault{Kind: kind, Node: node.ID, From: history.Now()})
}

// recordExit records that the process of a node has certainly ended. If the test did not ask it
// to end, it was killed, possibly by a disk fault. A process that failed also counts as
// killed, even while it terminated or just before a kill. Its fault then begins when it
// closed its client connections, although it exited later and its disk fault may have
// ended meanwhile.
func (c *Cluster) recordExit(node *Node) {
	at := history.Now()
	if node.process != nil && !node.process.Running() {
		at = min(at, node.process.exitedAt)
	}
	closed, holds, failed := at, false, false
	if node.process != nil {
		closed, holds, failed = node.process.failure(at)
	}
	if node.faultIndex < 0 || c.faults[node.faultIndex].Kind == history.Paused || failed && c.faults[node.faultIndex].Kind == history.Terminated {
		c.beginFault(node, history.Killed)
		c.faults[node.faultIndex].From = min(c.faults[node.faultIndex].From, at)
	}
	if fault := &c.faults[node.faultIndex]; failed && fault.ExitedBy == 0 {
		fault.From, fault.HoldsShards = min(fault.From, closed), holds
	}
	for i := range c.faults {
		fault := &c.faults[i]
		if (i == node.faultIndex || fault.Kind == history.DiskFault && fault.Node == node.ID && fault.Until == 0) && fault.ExitedBy == 0 {
			fault.ExitedBy = max(at, fault.From)
		}
	}
}

// endFault records that the process of a node runs again.
func (c *Cluster) endFault(node *Node) {
	if node.faultIndex >= 0 {
		c.faults[node.faultIndex].Until = history.Now()
		node.faultIndex = -1
	}
}
