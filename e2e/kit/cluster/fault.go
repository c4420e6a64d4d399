//go:build linux

package cluster

import (
	"slices"
	"time"

	"shardway/e2e/kit/history"
)

// Faults returns the injected faults. Faults of a process, its app or its disk are recorded when
// they are injected. The list includes the periods in which the machine had no CPU time.
func (c *Cluster) Faults() []history.Fault { return slices.Concat(c.faults, c.stalls.all()) }

// Waits returns how long the nodes waited for processors.
func (c *Cluster) Waits() []history.Wait { return c.stalls.waits() }

// Starved returns the total time since then in which the machine had no CPU time for the
// test or for a node.
func (c *Cluster) Starved(since int64) (sum time.Duration) {
	for _, f := range c.stalls.all() {
		if f.Until > since {
			sum += time.Duration(f.Until - max(f.From, since))
		}
	}
	return sum
}

// RecordFault records a fault that a test injects by other means, from now on until ended
// is called.
func (c *Cluster) RecordFault(f history.Fault) (ended func()) {
	i := len(c.faults)
	f.From = history.Now()
	c.faults = append(c.faults, f)
	return func() { c.faults[i].Until = history.Now() }
}

// RecordFault records a fault of the node, from now on until ended is called.
func (n *Node) RecordFault(k history.FaultKind) (ended func()) {
	return n.c.RecordFault(history.Fault{Kind: k, Node: n.ID})
}

// RecordDrain records that the node should own no shards, from now on until ended is called.
func (n *Node) RecordDrain() (ended func()) {
	c, i := n.c, len(n.c.drains)
	c.drains = append(c.drains, history.Drain{Node: n.ID, From: history.Now()})
	return func() { c.drains[i].Until = history.Now() }
}

// beginFault records a fault of the process of a node, which replaces its current fault.
func (c *Cluster) beginFault(n *Node, k history.FaultKind) {
	if n.fault >= 0 && c.faults[n.fault].Kind == k {
		return
	}
	c.endFault(n)
	n.fault = len(c.faults)
	c.faults = append(c.faults, history.Fault{Kind: k, Node: n.ID, From: history.Now()})
}

// recordExit records that the process of a node has certainly ended. If the test did not ask it
// to end, it was killed, possibly by a disk fault. A process that failed also counts as
// killed, even while it terminated or just before a kill. Its fault then begins when it
// closed its client connections, although it exited later and its disk fault may have
// ended meanwhile.
func (c *Cluster) recordExit(n *Node) {
	at := history.Now()
	if n.proc != nil && !n.proc.Running() {
		at = min(at, n.proc.ended)
	}
	closed, holds, failed := at, false, false
	if n.proc != nil {
		closed, holds, failed = n.proc.failed(at)
	}
	if n.fault < 0 || c.faults[n.fault].Kind == history.Paused || failed && c.faults[n.fault].Kind == history.Terminated {
		c.beginFault(n, history.Killed)
		c.faults[n.fault].From = min(c.faults[n.fault].From, at)
	}
	if f := &c.faults[n.fault]; failed && f.ExitedBy == 0 {
		f.From, f.HoldsShards = min(f.From, closed), holds
	}
	for i := range c.faults {
		f := &c.faults[i]
		if (i == n.fault || f.Kind == history.DiskFault && f.Node == n.ID && f.Until == 0) && f.ExitedBy == 0 {
			f.ExitedBy = max(at, f.From)
		}
	}
}

// endFault records that the process of a node runs again.
func (c *Cluster) endFault(n *Node) {
	if n.fault >= 0 {
		c.faults[n.fault].Until = history.Now()
		n.fault = -1
	}
}
