//go:build linux

package chaos

import (
	"slices"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/netns"
)

// isolate disconnects a node from all other nodes. Clients and its app still reach it.
type isolate struct {
	role   role
	victim *cluster.Node
}

func (f *isolate) name() string { return "isolate " + f.role.String() }

func (f *isolate) begin(sc *scenario) {
	f.victim = sc.pick(f.role)
	sc.recordFault(history.Unreachable, f.victim)
	sc.fatalIf(sc.net.Isolate(sc.index(f.victim)))
}

func (f *isolate) during(sc *scenario) {
	sc.awaitOthers(f.victim)
	sc.awaitLoad()
}

func (*isolate) end(sc *scenario) { sc.heal() }

// oneWay drops packets from a node to all others, or from all others to it.
type oneWay struct{ receiveLoss bool }

func (f *oneWay) name() string {
	if f.receiveLoss {
		return "one-way loss of received packets"
	}
	return "one-way loss of sent packets"
}

func (f *oneWay) begin(sc *scenario) {
	victim := sc.pick(anyNode)
	sc.recordFault(history.Unreachable, victim)
	for _, other := range sc.others(victim) {
		from, to := sc.index(victim), sc.index(other)
		if f.receiveLoss {
			from, to = to, from
		}
		sc.fatalIf(sc.net.Block(from, to))
	}
}

func (*oneWay) during(sc *scenario) { sc.awaitDetection() }

func (*oneWay) end(sc *scenario) { sc.heal() }

// partition splits the cluster in two. The nodes of the minority are faulty.
type partition struct{ minority []*cluster.Node }

func (*partition) name() string { return "partition" }

func (*partition) exclusive() {}

func (f *partition) begin(sc *scenario) {
	nodes := sc.shuffled()
	f.minority = nodes[:(len(nodes)-1)/2]
	for _, node := range f.minority {
		sc.recordFault(history.Unreachable, node)
	}
	sc.fatalIf(sc.net.Partition(sc.indexes(f.minority), sc.indexes(nodes[len(f.minority):])))
}

func (f *partition) during(sc *scenario) {
	sc.awaitOthers(f.minority...)
	sc.awaitLoad()
}

func (*partition) end(sc *scenario) { sc.heal() }

// bridge splits the cluster in two, except for one node that reaches both parts.
type bridge struct{}

func (*bridge) name() string { return "bridge" }

func (*bridge) begin(sc *scenario) {
	nodes := sc.shuffled()
	left, right := nodes[1:1+len(nodes)/2], nodes[1+len(nodes)/2:]
	for _, node := range slices.Concat(left, right) {
		sc.recordFault(history.Unreachable, node)
	}
	sc.tracef("the bridge is %s", nodes[0].ID)
	sc.fatalIf(sc.net.Bridge(sc.index(nodes[0]), sc.indexes(left), sc.indexes(right)))
}

func (*bridge) during(sc *scenario) { sc.awaitDetection() }

func (*bridge) end(sc *scenario) { sc.heal() }

// loss drops half of all packets from and to a node.
type loss struct{}

func (*loss) name() string { return "loss of 50 %" }

func (*loss) unavailable() error { return netns.Filters() }

func (*loss) begin(sc *scenario) {
	victim := sc.pick(anyNode)
	sc.recordFault(history.Unreachable, victim)
	sc.fatalIf(sc.net.Lose(sc.index(victim), 50))
}

func (*loss) during(sc *scenario) { sc.awaitDetection() }

func (*loss) end(sc *scenario) { sc.heal() }

// reset forges RST packets between two nodes, in one direction or in both. Established
// connections break, and new ones are refused.
type reset struct {
	both bool
	a, b *cluster.Node
}

func (f *reset) name() string {
	if f.both {
		return "reset both ways"
	}
	return "reset one way"
}

func (*reset) unavailable() error { return netns.Filters() }

func (f *reset) begin(sc *scenario) {
	f.a = sc.pick(anyNode)
	rest := sc.others(f.a)
	f.b = rest[sc.rng.IntN(len(rest))] // another fault may affect it, too
	sc.tracef("%s: reset by %s", f.a.ID, f.b.ID)
	sc.activeFaults = append(sc.activeFaults, sc.c.RecordFault(history.Fault{Kind: history.Reset, Node: f.a.ID, Peer: f.b.ID}))
	sc.fatalIf(sc.net.Reset(sc.index(f.a), sc.index(f.b)))
	if f.both {
		sc.fatalIf(sc.net.Reset(sc.index(f.b), sc.index(f.a)))
	}
}

func (*reset) during(sc *scenario) { sc.awaitDetection() }

func (*reset) end(sc *scenario) { sc.heal() }

// awaitDetection is awaitLoad for faults that other nodes detect late. In most cases it
// waits long enough for a takeover.
func (sc *scenario) awaitDetection() {
	sc.awaitLoad()
	if sc.rng.IntN(3) > 0 {
		sc.wait(2500 * time.Millisecond)
		sc.awaitLoad()
	}
}

// heal restores the network.
func (sc *scenario) heal() {
	sc.tracef("network restored")
	sc.fatalIf(sc.net.Heal())
}

// index returns the host number of a node in the network.
func (*scenario) index(node *cluster.Node) int { return int(node.ID[0] - 'a') }

func (sc *scenario) indexes(nodes []*cluster.Node) []int {
	var all []int
	for _, node := range nodes {
		all = append(all, sc.index(node))
	}
	return all
}
