//go:build linux

package chaos

import (
	"slices"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/netns"
)

// isolate disconnects a node from all other nodes. The node remains connected to clients and its app.
type isolate struct {
	role   role
	victim *cluster.Node
}

func (f *isolate) name() string { return "isolate " + f.role.String() }

func (f *isolate) begin(sc *scenario) {
	f.victim = sc.pickNode(f.role)
	sc.recordFault(history.Unreachable, f.victim)
	sc.fatalIf(sc.net.Isolate(sc.hostIndex(f.victim)))
}

func (f *isolate) whileActive(sc *scenario) {
	sc.awaitOthers(f.victim)
	sc.awaitLoad()
}

func (*isolate) end(sc *scenario) { sc.healNetwork() }

// isolateFromFollowers disconnects a follower from all nodes except the leader. Most other nodes cannot reach it then, so
// the leader must exclude it, although it receives its heartbeats.
type isolateFromFollowers struct {
	victim   *cluster.Node
	restored func() // records that the network is restored
}

// minNodesForReports is the number of nodes from which on the followers are a majority of the nodes that may report one of
// them.
const minNodesForReports = 4

func (*isolateFromFollowers) name() string { return "isolate from followers" }

func (f *isolateFromFollowers) begin(sc *scenario) {
	f.victim = sc.pickNode(follower)
	sc.tracef("%s: only %s reaches it", f.victim.ID, sc.leaderAtStart.ID)
	endFault, restored := sc.cluster.RecordUnreachableExceptFromLeader(f.victim)
	sc.endFaultFuncs, f.restored = append(sc.endFaultFuncs, endFault), restored
	for _, other := range sc.membersExcept(f.victim, sc.leaderAtStart) {
		sc.fatalIf(sc.net.DropBoth(sc.hostIndex(f.victim), sc.hostIndex(other)))
	}
}

// whileActive waits until the leader must have excluded the node. history.Check reports a node that it has not excluded.
// Some rounds continue for longer, so that the node could return too early.
func (f *isolateFromFollowers) whileActive(sc *scenario) {
	startedAt, deadline := time.Now(), sc.cluster.Rules().MaxExclusionTime()+time.Second
	isExcluded := f.isExcluded(sc)
	for !isExcluded && time.Since(startedAt) < deadline {
		sc.sleep(100 * time.Millisecond)
		isExcluded = f.isExcluded(sc)
	}
	if isExcluded {
		sc.Logf("%s is excluded after %v", f.victim.ID, time.Since(startedAt).Round(100*time.Millisecond))
	}
	sc.awaitDetection()
}

// isExcluded reports whether the node owns no shards in the map of the leader.
func (f *isolateFromFollowers) isExcluded(sc *scenario) bool {
	shardMap, err := sc.leaderAtStart.Map(sc.Context())
	return err == nil && shardMap.Counts()[f.victim.ID] == 0
}

func (f *isolateFromFollowers) end(sc *scenario) {
	f.restored()
	sc.healNetwork()
}

// oneWay drops the packets that a node sends to all others, or those that it receives from them.
type oneWay struct{ receiveLoss bool }

func (f *oneWay) name() string {
	if f.receiveLoss {
		return "one-way loss of received packets"
	}
	return "one-way loss of sent packets"
}

func (f *oneWay) begin(sc *scenario) {
	victim := sc.pickNode(anyNode)
	sc.recordFault(history.Unreachable, victim)
	for _, other := range sc.membersExcept(victim) {
		from, to := sc.hostIndex(victim), sc.hostIndex(other)
		if f.receiveLoss {
			from, to = to, from
		}
		sc.fatalIf(sc.net.Block(from, to))
	}
}

func (*oneWay) whileActive(sc *scenario) { sc.awaitDetection() }

func (*oneWay) end(sc *scenario) { sc.healNetwork() }

// partition splits the cluster in two. The nodes of the minority are faulty.
type partition struct{ minority []*cluster.Node }

func (*partition) name() string { return "partition" }

func (*partition) exclusive() {}

func (f *partition) begin(sc *scenario) {
	nodes := sc.shuffledMembers()
	f.minority = nodes[:(len(nodes)-1)/2]
	for _, node := range f.minority {
		sc.recordFault(history.Unreachable, node)
	}
	sc.fatalIf(sc.net.Partition(sc.hostIndexes(f.minority), sc.hostIndexes(nodes[len(f.minority):])))
}

func (f *partition) whileActive(sc *scenario) {
	sc.awaitOthers(f.minority...)
	sc.awaitLoad()
}

func (*partition) end(sc *scenario) { sc.healNetwork() }

// bridge splits the cluster into two parts. One more node, the bridge, reaches both parts.
type bridge struct{}

func (*bridge) name() string { return "bridge" }

func (*bridge) begin(sc *scenario) {
	nodes := sc.shuffledMembers()
	left, right := nodes[1:1+len(nodes)/2], nodes[1+len(nodes)/2:]
	for _, node := range slices.Concat(left, right) {
		sc.recordFault(history.Unreachable, node)
	}
	sc.tracef("the bridge is %s", nodes[0].ID)
	sc.fatalIf(sc.net.Bridge(sc.hostIndex(nodes[0]), sc.hostIndexes(left), sc.hostIndexes(right)))
}

func (*bridge) whileActive(sc *scenario) { sc.awaitDetection() }

func (*bridge) end(sc *scenario) { sc.healNetwork() }

// loss drops half of all packets from and to a node.
type loss struct{}

func (*loss) name() string { return "loss of 50 %" }

func (*loss) unavailable() error { return netns.Filters() }

func (*loss) begin(sc *scenario) {
	victim := sc.pickNode(anyNode)
	sc.recordFault(history.Unreachable, victim)
	sc.fatalIf(sc.net.DropPercent(sc.hostIndex(victim), 50))
}

func (*loss) whileActive(sc *scenario) { sc.awaitDetection() }

func (*loss) end(sc *scenario) { sc.healNetwork() }

// reset forges RST packets between two nodes, in one direction or in both. Established
// connections break, and new ones are refused.
type reset struct {
	both       bool
	node, peer *cluster.Node
}

func (f *reset) name() string {
	if f.both {
		return "reset both ways"
	}
	return "reset one way"
}

func (*reset) unavailable() error { return netns.Filters() }

func (f *reset) begin(sc *scenario) {
	f.node = sc.pickNode(anyNode)
	rest := sc.membersExcept(f.node)
	f.peer = rest[sc.rng.IntN(len(rest))] // another fault may also affect the peer
	sc.tracef("%s: reset by %s", f.node.ID, f.peer.ID)
	sc.endFaultFuncs = append(sc.endFaultFuncs, sc.cluster.RecordFault(history.Fault{Kind: history.Reset, Node: f.node.ID, Peer: f.peer.ID}))
	sc.fatalIf(sc.net.Reset(sc.hostIndex(f.node), sc.hostIndex(f.peer)))
	if f.both {
		sc.fatalIf(sc.net.Reset(sc.hostIndex(f.peer), sc.hostIndex(f.node)))
	}
}

func (*reset) whileActive(sc *scenario) { sc.awaitDetection() }

func (*reset) end(sc *scenario) { sc.healNetwork() }

// takeoverTime is the default of --dead-after, after which other nodes take over the shards of a silent node.
const takeoverTime = 2500 * time.Millisecond

// awaitDetection waits during a fault that other nodes detect late. In most cases it waits long enough
// for a takeover.
func (sc *scenario) awaitDetection() {
	sc.awaitLoad()
	if sc.rng.IntN(3) > 0 {
		sc.sleep(takeoverTime)
		sc.awaitLoad()
	}
}

// healNetwork ends all faults of the network.
func (sc *scenario) healNetwork() {
	sc.tracef("network restored")
	sc.fatalIf(sc.net.Heal())
}

// hostIndex returns the host number of a node in the network.
func (*scenario) hostIndex(node *cluster.Node) int { return int(node.ID[0] - 'a') }

// hostIndexes returns the host numbers of nodes in the network.
func (sc *scenario) hostIndexes(nodes []*cluster.Node) []int {
	var all []int
	for _, node := range nodes {
		all = append(all, sc.hostIndex(node))
	}
	return all
}
