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
	"shardway/e2e/kit/load"
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

// recoveryTimeout is the maximum time until a cluster without faults serves again.
const recoveryTimeout = 90 * time.Second

// scenario is the cluster of a run, its active faults, and its history.
type scenario struct {
	*recordingTB

	opts    Options
	cluster *cluster.Cluster
	net     *netns.Net
	disks   map[string]*faultfs.Disk // by node; empty if this machine does not support them
	store   *store.Store

	// members are the nodes that should serve. spare is one more node, which the fault join
	// starts.
	members   []*cluster.Node
	spareNode *cluster.Node

	trace trace
	// currentFaults are the names of the faults of the round. violated reports that a
	// check found a violation.
	currentFaults string
	violated      bool

	checkedRequests map[string]bool // whether a request was denied, by the ID of each checked request
	followers       *followers      // clients that run during all rounds

	// The following fields belong to the current round.
	rng           *rand.Rand
	roundNumber   int
	hasTwoFaults  bool
	leaderAtStart *cluster.Node // at the start of the round
	mapAtStart    cluster.Map   // at the start of the round
	affectedNodes []*cluster.Node
	activeFaults  []func()        // each call records the end of a fault
	drains        []history.Drain // of all rounds
	cordons       []history.Cordon
	exiting       []*cluster.Node // nodes with a faulty disk: they may exit, and are started again
	traffic       *traffic
	staleReturns  *staleReturns // nil without Caches
	loadTime      time.Duration
	startedAt     int64 // a value of history.Now
}

func newScenario(tb *recordingTB, opts Options) *scenario {
	sc := &scenario{recordingTB: tb, opts: opts, checkedRequests: make(map[string]bool), disks: make(map[string]*faultfs.Disk), currentFaults: "start"}
	sc.trace.begin()
	return sc
}

// launch starts the cluster.
func (sc *scenario) launch() {
	opts := sc.opts
	n, err := netns.New(opts.Network, opts.Nodes+1)
	sc.fatalIf(err)
	sc.net = n
	sc.Cleanup(func() { sc.errorIf(n.Close()) })
	dir, err := cluster.Scratch()
	sc.fatalIf(err)
	sc.Cleanup(func() { sc.errorIf(removeUnlessKept(dir)) })
	data := func(id string) string { return filepath.Join(dir, "data-"+id) }
	sc.mountDisks(data)
	sc.store, err = store.Listen(n.Gateway + ":0")
	sc.fatalIf(err)
	sc.Cleanup(func() { sc.errorIf(sc.store.Close()) })
	sc.cluster = cluster.New(sc, cluster.Options{
		Binaries: opts.Binaries, Shards: opts.Shards, Flags: opts.commonFlags(), Net: n, Secret: opts.Secret, Dir: dir, Data: data,
		AppFlags: opts.appFlags(sc.store.URL(), dir), Embedded: opts.Embedded,
	})
	for i := range opts.Nodes {
		sc.members = append(sc.members, sc.cluster.Prepare(sc, append(opts.nodeFlags(i), "--bootstrap-expect", strconv.Itoa(opts.Nodes))...))
	}
	sc.spareNode = sc.cluster.Prepare(sc, opts.nodeFlags(opts.Nodes)...)
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
func (sc *scenario) mountDisks(data func(id string) string) {
	if faultfs.Available() != nil {
		return
	}
	for i := range sc.opts.Nodes + 1 {
		id := string(rune('a' + i))
		disk, err := faultfs.Mount(data(id), diskSize)
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

// Failed reports whether there is a failure or violation so far. Then the logs are
// needed.
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

// pickNode selects a member with a role that no fault of the round affects yet, or a member
// with any role if there is none. Two simultaneous faults never affect the same node.
func (sc *scenario) pickNode(wanted role) *cluster.Node {
	var candidates []*cluster.Node
	for _, node := range sc.members {
		if slices.Contains(sc.affectedNodes, node) || wanted == follower && node == sc.leaderAtStart {
			continue
		}
		if wanted == leader && node == sc.leaderAtStart {
			candidates = []*cluster.Node{node}
			break
		}
		candidates = append(candidates, node)
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

func (sc *scenario) membersExcept(excluded ...*cluster.Node) []*cluster.Node {
	return slices.DeleteFunc(slices.Clone(sc.members), func(node *cluster.Node) bool { return slices.Contains(excluded, node) })
}

// recordFault records a fault that is not a signal. It is active until endFaults is
// called.
func (sc *scenario) recordFault(kind history.FaultKind, node *cluster.Node) {
	sc.tracef("%s: %s", node.ID, kind)
	sc.activeFaults = append(sc.activeFaults, node.RecordFault(kind))
	if kind == history.DiskFault {
		sc.traffic.forbidRetry(node) // it may exit
	}
}

// endFaults records the current time as the end of all active faults.
func (sc *scenario) endFaults() {
	for _, f := range sc.activeFaults {
		f()
	}
	sc.activeFaults = nil
}

func (sc *scenario) killNode(node *cluster.Node) {
	sc.tracef("%s: killed", node.ID)
	sc.traffic.forbidRetry(node)
	node.Kill(sc)
}

// startNode starts a node unless it runs.
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

// restartExited starts a node again that has exited because of its disk, or is about to.
// Its exit follows a moment after the failed write.
func (sc *scenario) restartExited(node *cluster.Node) {
	sc.exiting = append(sc.exiting, node)
	sc.restartAllExited()
}

func (sc *scenario) restartAllExited() {
	if sc.opts.Embedded && sc.cluster.StarvedTime(sc.startedAt) > 0 {
		// An app on a starved machine may run too long after an abort, and its node exits
		// because of that.
		for _, node := range sc.members {
			if !node.Running() && !slices.Contains(sc.exiting, node) {
				sc.exiting = append(sc.exiting, node)
			}
		}
	}
	for _, node := range sc.exiting {
		if !node.Running() {
			sc.traceExit(node)
			sc.startNode(node)
			sc.traffic.forbidRetry(node) // it may exit again
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

// sleep waits for d.
func (sc *scenario) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-sc.Context().Done():
		sc.Fatal(sc.Context().Err())
	}
}

// awaitLoad waits for the span of the round, measured in started requests.
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

// retryUntilSuccess calls f until it succeeds.
func (sc *scenario) retryUntilSuccess(action string, try func() error) {
	cluster.Await(sc, action, try)
}

// uniqueKeys returns one key for each shard. kind and the round number make the keys unique.
func (sc *scenario) uniqueKeys(kind string) []string {
	return load.KeysWithPrefixIn(fmt.Sprintf("%s%d", kind, sc.roundNumber), sc.opts.Shards, 1, func(int) bool { return true })
}
