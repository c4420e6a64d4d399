//go:build linux

package cluster

import (
	"slices"
	"time"

	"shardway/e2e/kit/history"
)

// Faults are what was done to the nodes. Those that concern a process, its app or
// its disk are noted as they are done; so are times in which the machine was busy.
func (c *Cluster) Faults() []history.Fault { return slices.Concat(c.faults, c.stalls.all()) }

// Waits are for how long the nodes waited for processors.
func (c *Cluster) Waits() []history.Wait { return c.stalls.waits() }

// Starved returns for how long in all, since then, the machine had no processor for
// the test or for a node.
func (c *Cluster) Starved(since int64) (sum time.Duration) {
	for _, f := range c.stalls.all() {
		if f.Until > since {
			sum += time.Duration(f.Until - max(f.From, since))
		}
	}
	return sum
}

// Hurt notes what a test does to a node by other means, from now on until mended is
// called.
func (c *Cluster) Hurt(f history.Fault) (mended func()) {
	i := len(c.faults)
	f.From = history.Now()
	c.faults = append(c.faults, f)
	return func() { c.faults[i].Until = history.Now() }
}

// Hurt notes what a test does to the node, from now on until mended is called.
func (n *Node) Hurt(k history.FaultKind) (mended func()) {
	return n.c.Hurt(history.Fault{Kind: k, Node: n.ID})
}

// Drains notes that the node is to own nothing, from now on until its shards may be back,
// when ended is called.
func (n *Node) Drains() (ended func()) {
	c, i := n.c, len(n.c.drains)
	c.drains = append(c.drains, history.Drain{Node: n.ID, From: history.Now()})
	return func() { c.drains[i].Until = history.Now() }
}

// begin notes that something is done to the process of a node, in place of what was
// done to it before.
func (c *Cluster) begin(n *Node, k history.FaultKind) {
	if n.fault >= 0 && c.faults[n.fault].Kind == k {
		return
	}
	c.end(n)
	n.fault = len(c.faults)
	c.faults = append(c.faults, history.Fault{Kind: k, Node: n.ID, From: history.Now()})
}

// dead notes that the process of a node has certainly ended. One that nobody had
// asked to end was killed, by its disk if that is not whole; and so was one that
// failed, also while it left, or before somebody killed it: from when it cut its
// clients, although it had more to end, and its disk may have been mended meanwhile.
func (c *Cluster) dead(n *Node) {
	at := history.Now()
	if n.proc != nil && !n.proc.Running() {
		at = min(at, n.proc.ended)
	}
	cut, holds, failed := at, false, false
	if n.proc != nil {
		cut, holds, failed = n.proc.failed(at)
	}
	if n.fault < 0 || c.faults[n.fault].Kind == history.Paused || failed && c.faults[n.fault].Kind == history.Terminated {
		c.begin(n, history.Killed)
		c.faults[n.fault].From = min(c.faults[n.fault].From, at)
	}
	if f := &c.faults[n.fault]; failed && f.By == 0 {
		f.From, f.Holds = min(f.From, cut), holds
	}
	for i := range c.faults {
		f := &c.faults[i]
		if (i == n.fault || f.Kind == history.DiskFault && f.Node == n.ID && f.Until == 0) && f.By == 0 {
			f.By = max(at, f.From)
		}
	}
}

// end notes that the process of a node runs on, or again.
func (c *Cluster) end(n *Node) {
	if n.fault >= 0 {
		c.faults[n.fault].Until = history.Now()
		n.fault = -1
	}
}
