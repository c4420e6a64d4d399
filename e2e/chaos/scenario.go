//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/faultfs"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/netns"
	"shardway/e2e/kit/store"
)

// role selects the node that a fault affects.
type role int

const (
	anyNode role = iota + 1
	follower
	leader
)

// String returns the name of the role.
func (r role) String() string {
	switch r {
	case anyNode:
		return "any node"
	case follower:
		return "follower"
	case leader:
		return "leader"
	}
	return fmt.Sprintf("role(%d)", int(r))
}

// recoveryTimeout is the maximum time until a cluster serves again after its faults have ended.
const recoveryTimeout = 90 * time.Second

// scenario is the state of a run: the cluster, its faults, and the clients that send requests to it.
// Only one goroutine may use it.
type scenario struct {
	*recordingTB

	opts Options

	// The cluster and its environment.
	cluster   *cluster.Cluster
	net       *netns.Net
	disks     map[string]*faultfs.Disk // by node; empty if this machine does not support them
	store     *store.Store             // the store behind the registers of the apps
	members   []*cluster.Node          // the nodes that should serve
	spareNode *cluster.Node            // one more node, which the fault join can add to the cluster
	followers *followers               // clients that run during all rounds

	// Observations of all rounds, for the checks and the report.
	trace           trace
	violated        bool            // a check has found a violation
	checkedRequests map[string]bool // by ID; true if a node denied the request
	drains          []history.Drain
	cordons         []history.Cordon

	// The current round.
	currentFaults string // names of its faults, for the report
	rng           *rand.Rand
	roundNumber   int
	hasTwoFaults  bool
	leaderAtStart *cluster.Node
	mapAtStart    cluster.Map
	affectedNodes []*cluster.Node // nodes that a fault has selected
	endFaultFuncs []func()        // each function records the end of an active fault
	exitingNodes  []*cluster.Node // nodes that may exit because of a disk fault, and are then started again
	traffic       *traffic
	staleReturns  *staleReturns // nil without Options.Caches
	loadTime      time.Duration // how long a step of the round lasts, measured in started requests
	startedAt     int64         // value of history.Now
}

func newScenario(tb *recordingTB, opts Options) *scenario {
	sc := &scenario{recordingTB: tb, opts: opts, checkedRequests: make(map[string]bool), disks: make(map[string]*faultfs.Disk), currentFaults: "start"}
	sc.trace.begin()
	return sc
}

// launch starts the cluster and its clients.
func (sc *scenario) launch() {
	opts := sc.opts
	network, err := netns.New(opts.Network, opts.Nodes+1)
	sc.fatalIf(err)
	sc.net = network
	sc.Cleanup(func() { sc.errorIf(network.Close()) })
	dir, err := cluster.Scratch()
	sc.fatalIf(err)
	sc.Cleanup(func() { sc.errorIf(removeUnlessKept(dir)) })
	dataDir := func(nodeID string) string { return filepath.Join(dir, "data-"+nodeID) }
	sc.mountDisks(dataDir)
	sc.store, err = store.Listen(network.Gateway + ":0")
	sc.fatalIf(err)
	sc.Cleanup(func() { sc.errorIf(sc.store.Close()) })
	sc.cluster = cluster.New(sc, cluster.Options{
		Binaries: opts.Binaries, Shards: opts.Shards, Services: opts.Services, Flags: opts.commonFlags(), Net: network, Secret: opts.Secret, Dir: dir, Data: dataDir,
		AppFlags: opts.appFlags(sc.store.URL(), dir), Embedded: opts.Embedded,
	})
	for i := range opts.Nodes {
		sc.members = append(sc.members, sc.cluster.Prepare(sc, append(opts.nodeFlags(i), "--bootstrap-expect", strconv.Itoa(opts.Nodes))...))
	}
	sc.spareNode = sc.cluster.Prepare(sc, opts.nodeFlags(opts.Nodes)...)
	for _, node := range append(slices.Clone(sc.members), sc.spareNode) {
		for range opts.Instances - 1 {
			node.AddInstance(sc)
		}
	}
	sc.cluster.AddJoinFlags()
	for _, node := range sc.members {
		node.Start(sc)
	}
	sc.awaitRecovery()
	sc.traffic = newTraffic(sc)
	sc.Cleanup(sc.traffic.close)
	sc.followers = startFollowers(sc, opts.Followers)
	sc.Cleanup(sc.followers.close)
}

// mountDisks gives each node its own disk, if the machine supports that.
func (sc *scenario) mountDisks(dataDir func(nodeID string) string) {
	if faultfs.Available() != nil {
		return
	}
	for i := range sc.opts.Nodes + 1 {
		id := string(rune('a' + i))
		disk, err := faultfs.Mount(dataDir(id), diskSize)
		sc.fatalIf(err)
		sc.disks[id] = disk
		sc.Cleanup(func() { sc.errorIf(unmount(disk)) })
	}
}

// unmount removes a disk. It copies the files first if they must be kept.
func unmount(disk *faultfs.Disk) error {
	if !mustKeepData() {
		return disk.Unmount()
	}
	saved := disk.Dir + ".copy"
	err := cluster.CopyData(saved, disk.Dir)
	return errors.Join(err, disk.Unmount(), os.Rename(saved, disk.Dir))
}

var _ testing.TB = (*scenario)(nil)

// Failed reports whether the run has a failure or a violation so far. The cluster prints the logs
// of its nodes in that case.
func (sc *scenario) Failed() bool { return sc.violated || sc.recordingTB.Failed() }

// fatalIf ends the run if err is not nil.
func (sc *scenario) fatalIf(err error) {
	if err != nil {
		sc.Fatal(fmt.Errorf("chaos: %w", err))
	}
}

// errorIf records err as a failure, and continues.
func (sc *scenario) errorIf(err error) {
	if err != nil {
		sc.Error(err)
	}
}

// tracef adds an event to the trace.
func (sc *scenario) tracef(format string, args ...any) { sc.trace.add(fmt.Sprintf(format, args...)) }

// pickNode selects a random member with the given role that no other fault of the round affects. If
// there is none, it selects a member with another role. Two simultaneous faults never affect the
// same node.
func (sc *scenario) pickNode(wanted role) *cluster.Node {
	candidates := sc.membersExcept(sc.affectedNodes...)
	isLeader := func(node *cluster.Node) bool { return node == sc.leaderAtStart }
	switch {
	case wanted == follower:
		candidates = slices.DeleteFunc(candidates, isLeader)
	case wanted == leader && slices.ContainsFunc(candidates, isLeader):
		candidates = []*cluster.Node{sc.leaderAtStart}
	}
	node := candidates[sc.rng.IntN(len(candidates))]
	sc.affectedNodes = append(sc.affectedNodes, node)
	sc.tracef("selected: %s", node.ID)
	return node
}

// shuffledMembers returns the members in random order.
func (sc *scenario) shuffledMembers() []*cluster.Node {
	nodes := slices.Clone(sc.members)
	sc.rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	return nodes
}

// membersExcept returns the members without the given nodes.
func (sc *scenario) membersExcept(excluded ...*cluster.Node) []*cluster.Node {
	return slices.DeleteFunc(slices.Clone(sc.members), func(node *cluster.Node) bool { return slices.Contains(excluded, node) })
}

// recordFault records a fault that a signal does not cause, such as a disk fault. The fault is active
// until endFaults is called.
func (sc *scenario) recordFault(kind history.FaultKind, node *cluster.Node) {
	sc.tracef("%s: %s", node.ID, kind)
	sc.endFaultFuncs = append(sc.endFaultFuncs, node.RecordFault(kind))
	if kind == history.DiskFault {
		sc.traffic.forbidRetry(node) // the node may exit
	}
}

// endFaults records the current time as the end of all active faults.
func (sc *scenario) endFaults() {
	for _, endFault := range sc.endFaultFuncs {
		endFault()
	}
	sc.endFaultFuncs = nil
}

func (sc *scenario) killNode(node *cluster.Node) {
	sc.tracef("%s: killed", node.ID)
	sc.traffic.forbidRetry(node)
	node.Kill(sc)
}

// startNode starts a node if it does not run.
func (sc *scenario) startNode(node *cluster.Node) {
	if !node.Running() {
		sc.tracef("%s: started", node.ID)
		node.Start(sc)
		sc.traffic.allowRetry(node)
	}
}

// traceExit adds an event to the trace if a node with a disk fault has exited. Such a node may
// lose its connections at any time between the failed write and its exit, which follows
// seconds later.
func (sc *scenario) traceExit(node *cluster.Node) {
	if _, ended := node.Exited(); ended {
		sc.tracef("%s: has exited", node.ID)
	}
}

// restartExited starts a node again that has exited because of its disk. If the node still runs, it
// may exit soon after the failed write. restartAllExited then starts it again.
func (sc *scenario) restartExited(node *cluster.Node) {
	sc.exitingNodes = append(sc.exitingNodes, node)
	sc.restartAllExited()
}

// restartAllExited starts all nodes again that may exit in this round and have exited.
func (sc *scenario) restartAllExited() {
	if sc.opts.Embedded && sc.cluster.StarvedTime(sc.startedAt) > 0 {
		// On a machine without enough CPU time, an app may continue for too long after an abort.
		// Its node then exits.
		for _, node := range sc.members {
			if !node.Running() && !slices.Contains(sc.exitingNodes, node) {
				sc.exitingNodes = append(sc.exitingNodes, node)
			}
		}
	}
	for _, node := range sc.exitingNodes {
		if !node.Running() {
			sc.traceExit(node)
			sc.startNode(node)
			sc.traffic.forbidRetry(node) // the node may exit again
		}
	}
}

func (sc *scenario) pauseNode(node *cluster.Node) {
	sc.tracef("%s: SIGSTOP", node.ID)
	node.Pause(sc)
}

func (sc *scenario) continueNode(node *cluster.Node) {
	sc.tracef("%s: SIGCONT", node.ID)
	node.Continue(sc)
}

// sleep waits for a duration. It ends the run if the test is canceled before that.
func (sc *scenario) sleep(duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-sc.Context().Done():
		sc.Fatal(sc.Context().Err())
	}
}

// awaitLoad waits for loadTime, measured in started requests.
func (sc *scenario) awaitLoad() { sc.traffic.awaitLoad(sc, sc.loadTime) }

// awaitOthers waits until all nodes except the given ones serve, if there is only one
// fault in this round.
func (sc *scenario) awaitOthers(excluded ...*cluster.Node) {
	if sc.hasTwoFaults {
		sc.awaitLoad()
		return
	}
	sc.cluster.AwaitShards(sc, sc.membersExcept(excluded...)...)
	sc.tracef("the other nodes serve")
}

// awaitRecovery waits until all members serve and report one map without orphaned shards.
func (sc *scenario) awaitRecovery() {
	start := time.Now()
	cluster.AwaitFor(sc, recoveryTimeout, "all nodes serve again", func() error {
		sc.restartAllExited()
		return sc.checkServing()
	})
	sc.tracef("all nodes serve after %v", time.Since(start).Round(time.Millisecond))
}

// checkServing returns nil if all members serve and report the same map.
func (sc *scenario) checkServing() error {
	shardMap, err := sc.cluster.CheckServing(sc, sc.members...)
	if err != nil {
		return err
	}
	var errs []error
	for _, node := range sc.members {
		other, err := node.Map(sc.Context())
		if err != nil {
			return err
		}
		if other.Epoch != shardMap.Epoch || len(shardMap.Moves(other)) > 0 {
			errs = append(errs, fmt.Errorf("%s has another map than %s: epochs %d and %d, %d shards differ",
				node.ID, sc.members[0].ID, other.Epoch, shardMap.Epoch, len(shardMap.Moves(other))))
		}
		status, err := node.Status(sc.Context())
		if err != nil {
			return err
		}
		if status.Shards.Orphaned > 0 {
			errs = append(errs, fmt.Errorf("%s reports %d orphaned shards", node.ID, status.Shards.Orphaned))
		}
	}
	return errors.Join(errs...)
}

// retryUntilSuccess calls try until it returns nil. action describes it in the error message.
func (sc *scenario) retryUntilSuccess(action string, try func() error) {
	cluster.Await(sc, action, try)
}

// uniqueKeys returns one key for each shard. The keys contain kind and the number of the round, so
// that no other round uses them.
func (sc *scenario) uniqueKeys(kind string) []string {
	return sc.cluster.Keys(fmt.Sprintf("%s%d", kind, sc.roundNumber), 1)
}
