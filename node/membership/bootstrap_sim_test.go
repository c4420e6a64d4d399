package membership_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/raceflag"
	"shardway/node/consensus"
	"shardway/node/gossip"
	"shardway/node/membership"
)

// This file simulates the bootstrap of a cluster over a model of gossip, disks and the network.
// Nodes start in any order, are killed and restarted with their disks, are partitioned, and see each
// other late. At most one cluster may be bootstrapped. Once all nodes run and are connected, one must
// be.

// simNode is a node: its disk and its running process, if any.
type simNode struct {
	w       *schedule
	index   int
	id      string
	rand    *rand.Rand
	disk    simDisk
	running *membership.Bootstrapper
	stop    context.CancelFunc
	done    chan struct{}
}

// simDisk is the content of a disk.
type simDisk struct {
	promised string
	cluster  string
	log      bool
}

// schedule is one simulated schedule, in one synctest bubble.
type schedule struct {
	rand *rand.Rand // for faults only; each node has its own source

	mu           sync.Mutex
	expect       int
	nodes        []*simNode
	cut          map[[2]string]bool // messages from the first node do not reach the second
	hidden       map[[2]string]bool // gossip does not show the second node to the first
	bootstrapped []string
	failure      string
}

var errDown = errors.New("nobody answers")

// Cluster, Promised and Promise implement membership.PromiseStore. Promise takes time.
func (n *simNode) Cluster() (id string, shards int) {
	defer n.w.lock()()
	return n.disk.cluster, 8
}

// Promised: see Cluster.
func (n *simNode) PromisedNode() (to string, err error) {
	defer n.w.lock()()
	return n.disk.promised, nil
}

// Promise: see Cluster.
func (n *simNode) StorePromise(to string) error {
	n.delay(300)
	defer n.w.lock()()
	if n.running == nil {
		return errDown
	}
	n.disk.promised = to
	return nil
}

// delay waits for a random time of up to most milliseconds. Two nodes never act at the same time;
// otherwise a schedule could not be replayed.
func (n *simNode) delay(most int) {
	defer n.w.lock()()
	d := time.Duration(n.rand.IntN(most))*time.Millisecond + time.Duration(n.index)*10*time.Microsecond
	n.w.mu.Unlock()
	time.Sleep(d)
	n.w.mu.Lock()
}

// lock locks the state that all nodes of the model share.
func (w *schedule) lock() (unlock func()) {
	w.mu.Lock()
	return w.mu.Unlock
}

// Fresh, Configuration, Bootstrap and Campaign implement membership.BootstrapRaft.
func (n *simNode) StartedEmpty() bool {
	defer n.w.lock()()
	return !n.disk.log
}

func (n *simNode) Configuration() []consensus.Server {
	defer n.w.lock()()
	if !n.disk.log {
		return nil
	}
	return []consensus.Server{{ID: n.id + "/d", Voter: true}}
}

func (n *simNode) Bootstrap() error {
	n.delay(100)
	defer n.w.lock()()
	if n.running == nil {
		return errDown
	}
	n.w.recordBootstrap(n)
	return nil
}

func (n *simNode) Campaign() error { return nil }

// recordBootstrap records that a node bootstraps a cluster, and checks whether it may.
func (w *schedule) recordBootstrap(n *simNode) {
	n.disk.log, n.disk.cluster = true, "of "+n.id
	w.bootstrapped = append(w.bootstrapped, n.id)
	promised := 0
	for _, other := range w.nodes {
		if other.disk.promised == n.id {
			promised++
		}
	}
	switch {
	case len(w.bootstrapped) > 1:
		w.fail("two clusters: %v", w.bootstrapped)
	case promised < w.expect:
		w.fail("%d of %d have promised %s to let it found the cluster", promised, w.expect, n.id)
	}
}

func (w *schedule) fail(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
	}
}

// Members returns what gossip shows to the node.
func (n *simNode) Members() (all []gossip.Member) {
	defer n.w.lock()()
	for _, other := range n.w.nodes {
		status := gossip.Alive
		if other.running == nil || n.w.hidden[[2]string{n.id, other.id}] {
			status = gossip.Failed
		}
		all = append(all, gossip.Member{ID: other.id, Node: true, Status: status, Tags: gossip.Tags{Node: other.id, Disk: "d", BootstrapExpect: n.w.expect, Cluster: other.disk.cluster}})
	}
	return all
}

// RequestPromise and NeedsPromise send requests to another node. The request or the response may be
// lost.
func (n *simNode) RequestPromise(ctx context.Context, node string, firm bool) (ok bool, err error) {
	err = n.send(ctx, node, func(b *membership.Bootstrapper) error {
		ok, err = b.HandlePromise(ctx, n.id, firm)
		return err
	})
	return ok && err == nil, err
}

// NeedsPromise: see RequestPromise.
func (n *simNode) NeedsPromise(ctx context.Context, node string) (needs bool, err error) {
	err = n.send(ctx, node, func(b *membership.Bootstrapper) error {
		needs, err = b.HandleNeedsPromise()
		return err
	})
	return needs, err
}

func (n *simNode) send(ctx context.Context, node string, do func(b *membership.Bootstrapper) error) error {
	w := n.w
	other := w.nodes[slices.IndexFunc(w.nodes, func(o *simNode) bool { return o.id == node })]
	n.delay(40)
	b := w.target(other, [2]string{n.id, node})
	if ctx.Err() != nil || b == nil {
		return errDown
	}
	if err := do(b); err != nil {
		return err
	}
	n.delay(40)
	if w.target(other, [2]string{node, n.id}) != b {
		return errDown
	}
	return nil
}

// target returns the process that runs on a node, or nil if none runs or if the network drops messages
// in this direction.
func (w *schedule) target(n *simNode, way [2]string) *membership.Bootstrapper {
	defer w.lock()()
	if w.cut[way] {
		return nil
	}
	return n.running
}

// start starts the process of the node.
func (n *simNode) start() {
	if n.running != nil { // only the goroutine of the schedule changes it
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	b := membership.NewBootstrapper(membership.BootstrapperOptions{
		Self: n.id, BootstrapExpect: n.w.expect, HasJoinAddrs: true, Dir: n, Raft: n, Gossip: n, Nodes: n, Log: zerolog.Nop(),
		OnFailure: func(err error) {
			if !errors.Is(err, errDown) {
				defer n.w.lock()()
				n.w.fail("%s: %v", n.id, err)
			}
		},
	})
	done := make(chan struct{})
	n.setRunning(b)
	n.stop, n.done = stop, done
	go func() {
		defer close(done)
		n.delay(20)
		b.Run(ctx)
	}()
}

func (n *simNode) setRunning(b *membership.Bootstrapper) {
	defer n.w.lock()()
	n.running = b
}

// kill stops the process of the node.
func (n *simNode) kill() {
	if n.running == nil {
		return
	}
	n.setRunning(nil)
	n.stop()
	<-n.done
}

// injectFault injects one random fault.
func (w *schedule) injectFault() {
	n, other := w.nodes[w.rand.IntN(len(w.nodes))], w.nodes[w.rand.IntN(len(w.nodes))]
	way := [2]string{n.id, other.id}
	switch w.rand.IntN(6) {
	case 0, 1:
		n.start()
	case 2:
		n.kill()
	case 3:
		w.toggle(w.cut, way)
	case 4:
		w.toggle(w.hidden, way)
	case 5: // a quick restart
		n.kill()
		n.start()
	}
	time.Sleep(time.Duration(w.rand.IntN(200)) * time.Millisecond)
}

// toggle interrupts one direction between two nodes, or restores it.
func (w *schedule) toggle(ways map[[2]string]bool, way [2]string) {
	defer w.lock()()
	ways[way] = way[0] != way[1] && !ways[way]
}

// healAll restores all connections.
func (w *schedule) healAll() {
	defer w.lock()()
	clear(w.cut)
	clear(w.hidden)
}

// runSchedule runs one schedule and returns a description of a failure, or "".
func runSchedule(t *testing.T, seed uint64) (failure string) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := &schedule{rand: rand.New(rand.NewPCG(seed, 0xf0)), cut: map[[2]string]bool{}, hidden: map[[2]string]bool{}}
		w.expect = 2 + w.rand.IntN(4)
		// There may be more nodes than expected, but not twice as many.
		for i := range w.expect + w.rand.IntN(w.expect) {
			w.nodes = append(w.nodes, &simNode{w: w, index: i, id: string(rune('a' + i)), rand: rand.New(rand.NewPCG(seed, uint64(i)))})
		}
		for range 5 + w.rand.IntN(40) {
			w.injectFault()
		}
		w.healAll()
		for _, n := range w.nodes {
			n.start()
		}
		time.Sleep(30 * time.Second)
		for _, n := range w.nodes {
			n.kill()
		}
		if len(w.bootstrapped) == 0 {
			w.fail("progress: all %d are there, %d are expected, and nobody founds the cluster", len(w.nodes), w.expect)
		}
		failure = w.failure
	})
	return failure
}

// TestEveryScheduleBootstrapsAtMostOneCluster runs a number of random schedules.
func TestEveryScheduleBootstrapsAtMostOneCluster(t *testing.T) {
	for seed := range uint64(raceflag.Share(120, 30)) {
		if failure := runSchedule(t, seed+1); failure != "" {
			t.Fatalf("schedule %d: %s", seed+1, failure)
		}
	}
}
