//go:build linux

package chaos

import (
	"slices"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/netns"
)

// isolate cuts a node off from all the others. Clients and its app still reach it.
type isolate struct {
	role   role
	victim *cluster.Node
}

func (f *isolate) name() string { return "isolate " + f.role.String() }

func (f *isolate) begin(w *world) {
	f.victim = w.pick(f.role)
	w.hurt(history.Unreachable, f.victim)
	w.must(w.net.Isolate(w.index(f.victim)))
}

func (f *isolate) during(w *world) {
	w.carryOn(f.victim)
	w.flow()
}

func (*isolate) end(w *world) { w.heal() }

// oneWay drops what a node sends to all others, or what they send to it.
type oneWay struct{ deaf bool }

func (f *oneWay) name() string {
	if f.deaf {
		return "one-way: hears nobody"
	}
	return "one-way: nobody hears it"
}

func (f *oneWay) begin(w *world) {
	victim := w.pick(anybody)
	w.hurt(history.Unreachable, victim)
	for _, other := range w.others(victim) {
		from, to := w.index(victim), w.index(other)
		if f.deaf {
			from, to = to, from
		}
		w.must(w.net.Block(from, to))
	}
}

func (*oneWay) during(w *world) { w.last() }

func (*oneWay) end(w *world) { w.heal() }

// halves cuts the cluster in two. Who is in no majority is hurt.
type halves struct{ minority []*cluster.Node }

func (*halves) name() string { return "halves" }

func (*halves) alone() {}

func (f *halves) begin(w *world) {
	nodes := w.shuffled()
	f.minority = nodes[:(len(nodes)-1)/2]
	for _, n := range f.minority {
		w.hurt(history.Unreachable, n)
	}
	w.must(w.net.Halves(w.indexes(f.minority), w.indexes(nodes[len(f.minority):])))
}

func (f *halves) during(w *world) {
	w.carryOn(f.minority...)
	w.flow()
}

func (*halves) end(w *world) { w.heal() }

// bridge cuts the cluster in two but for one node, which sees both sides.
type bridge struct{}

func (*bridge) name() string { return "bridge" }

func (*bridge) begin(w *world) {
	nodes := w.shuffled()
	left, right := nodes[1:1+len(nodes)/2], nodes[1+len(nodes)/2:]
	for _, n := range slices.Concat(left, right) {
		w.hurt(history.Unreachable, n)
	}
	w.note("the middle is %s", nodes[0].ID)
	w.must(w.net.Bridge(w.index(nodes[0]), w.indexes(left), w.indexes(right)))
}

func (*bridge) during(w *world) { w.last() }

func (*bridge) end(w *world) { w.heal() }

// loss drops half of all packets from and to a node.
type loss struct{}

func (*loss) name() string { return "loss of 50 %" }

func (*loss) missing() error { return netns.Filters() }

func (*loss) begin(w *world) {
	victim := w.pick(anybody)
	w.hurt(history.Unreachable, victim)
	w.must(w.net.Lose(w.index(victim), 50))
}

func (*loss) during(w *world) { w.last() }

func (*loss) end(w *world) { w.heal() }

// reset forges refusals between two nodes, of what one sends to the other or of
// both: established connections break, new ones are refused.
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

func (*reset) missing() error { return netns.Filters() }

func (f *reset) begin(w *world) {
	f.a = w.pick(anybody)
	rest := w.others(f.a)
	f.b = rest[w.rng.IntN(len(rest))] // another fault may hit it as well
	w.note("%s: reset by %s", f.a.ID, f.b.ID)
	w.healing = append(w.healing, w.c.Hurt(history.Fault{Kind: history.Reset, Node: f.a.ID, Peer: f.b.ID}))
	w.must(w.net.Reset(w.index(f.a), w.index(f.b)))
	if f.both {
		w.must(w.net.Reset(w.index(f.b), w.index(f.a)))
	}
}

func (*reset) during(w *world) { w.last() }

func (*reset) end(w *world) { w.heal() }

// last is flow for what others notice only after some time: often for long enough
// that shards are taken.
func (w *world) last() {
	w.flow()
	if w.rng.IntN(3) > 0 {
		w.wait(2500 * time.Millisecond)
		w.flow()
	}
}

// heal mends all wires.
func (w *world) heal() {
	w.note("wires healed")
	w.must(w.net.Heal())
}

// index is the host of a node in the network.
func (*world) index(n *cluster.Node) int { return int(n.ID[0] - 'a') }

func (w *world) indexes(nodes []*cluster.Node) []int {
	var all []int
	for _, n := range nodes {
		all = append(all, w.index(n))
	}
	return all
}
