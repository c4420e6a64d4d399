package roster_test

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
	"shardway/node/roster"
)

// The founding of a cluster as package node plays it, over a model of gossip, disks and
// the way to the others: nodes start in any order, are killed and start again, with
// their disks, are cut off from each other and see each other late. Whatever happens,
// one cluster is founded at most; and when all are there again, one is.

// foundling is one node: its disk, and the process that runs, if one does.
type foundling struct {
	w    *founding
	at   int
	id   string
	dice *rand.Rand
	disk founds
	up   *roster.Bootstrapper
	stop context.CancelFunc
	done chan struct{}
}

// founds is what is on the disk.
type founds struct {
	promised string
	cluster  string
	log      bool
}

// founding is one schedule. It belongs to one bubble.
type founding struct {
	dice *rand.Rand // of the faults alone: what a node draws, it draws from its own

	mu      sync.Mutex
	expect  int
	nodes   []*foundling
	cut     map[[2]string]bool // messages from one do not reach the other
	unseen  map[[2]string]bool // gossip does not show the other to the one
	founded []string
	failure string
}

var errDown = errors.New("nobody answers")

// Cluster, Promised and Promise are the data directory's; the disk takes its time.
func (n *foundling) Cluster() (id string, shards int) {
	defer n.w.locked()()
	return n.disk.cluster, 8
}

// Promised see Cluster.
func (n *foundling) Promised() (to string, err error) {
	defer n.w.locked()()
	return n.disk.promised, nil
}

// Promise see Cluster.
func (n *foundling) Promise(to string) error {
	n.takes(300)
	defer n.w.locked()()
	if n.up == nil {
		return errDown
	}
	n.disk.promised = to
	return nil
}

// takes lets a while pass, of so many milliseconds at most. No two nodes do anything in
// the same moment, or a schedule would not replay.
func (n *foundling) takes(most int) {
	defer n.w.locked()()
	d := time.Duration(n.dice.IntN(most))*time.Millisecond + time.Duration(n.at)*10*time.Microsecond
	n.w.mu.Unlock()
	time.Sleep(d)
	n.w.mu.Lock()
}

// locked locks what all nodes of the model share.
func (w *founding) locked() (unlock func()) {
	w.mu.Lock()
	return w.mu.Unlock
}

// Fresh, Configuration, Bootstrap and Campaign are Raft's.
func (n *foundling) Fresh() bool {
	defer n.w.locked()()
	return !n.disk.log
}

func (n *foundling) Configuration() []consensus.Server {
	defer n.w.locked()()
	if !n.disk.log {
		return nil
	}
	return []consensus.Server{{ID: n.id + "/d", Voter: true}}
}

func (n *foundling) Bootstrap() error {
	n.takes(100)
	defer n.w.locked()()
	if n.up == nil {
		return errDown
	}
	n.w.founds(n)
	return nil
}

func (n *foundling) Campaign() error { return nil }

// founds notes that a node founds a cluster, and judges that.
func (w *founding) founds(n *foundling) {
	n.disk.log, n.disk.cluster = true, "of "+n.id
	w.founded = append(w.founded, n.id)
	promised := 0
	for _, other := range w.nodes {
		if other.disk.promised == n.id {
			promised++
		}
	}
	switch {
	case len(w.founded) > 1:
		w.fail("two clusters: %v", w.founded)
	case promised < w.expect:
		w.fail("%d of %d have promised %s to let it found the cluster", promised, w.expect, n.id)
	}
}

func (w *founding) fail(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
	}
}

// Members are what gossip shows to the node.
func (n *foundling) Members() (all []gossip.Member) {
	defer n.w.locked()()
	for _, other := range n.w.nodes {
		status := gossip.Alive
		if other.up == nil || n.w.unseen[[2]string{n.id, other.id}] {
			status = gossip.Failed
		}
		all = append(all, gossip.Member{ID: other.id, Node: true, Status: status, Tags: gossip.Tags{Node: other.id, Disk: "d", BootstrapExpect: n.w.expect, Cluster: other.disk.cluster}})
	}
	return all
}

// MayFound and Needs ask another node. Either way of a message may be lost.
func (n *foundling) RequestPromise(ctx context.Context, node string, firm bool) (ok bool, err error) {
	err = n.asks(ctx, node, func(b *roster.Bootstrapper) error {
		ok, err = b.HandlePromise(ctx, n.id, firm)
		return err
	})
	return ok && err == nil, err
}

// Needs see MayFound.
func (n *foundling) NeedsPromise(ctx context.Context, node string) (needs bool, err error) {
	err = n.asks(ctx, node, func(b *roster.Bootstrapper) error {
		needs, err = b.HandleNeeds()
		return err
	})
	return needs, err
}

func (n *foundling) asks(ctx context.Context, node string, do func(b *roster.Bootstrapper) error) error {
	w := n.w
	other := w.nodes[slices.IndexFunc(w.nodes, func(o *foundling) bool { return o.id == node })]
	n.takes(40)
	b := w.process(other, [2]string{n.id, node})
	if ctx.Err() != nil || b == nil {
		return errDown
	}
	if err := do(b); err != nil {
		return err
	}
	n.takes(40)
	if w.process(other, [2]string{node, n.id}) != b {
		return errDown
	}
	return nil
}

// process returns the one that runs on a node, nil if none does or no message of that
// way arrives.
func (w *founding) process(n *foundling, way [2]string) *roster.Bootstrapper {
	defer w.locked()()
	if w.cut[way] {
		return nil
	}
	return n.up
}

// start starts the node's process.
func (n *foundling) start() {
	if n.up != nil { // only the schedule changes it
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	b := roster.NewBootstrapper(roster.BootstrapperOptions{
		Self: n.id, BootstrapExpect: n.w.expect, Joins: true, Dir: n, Raft: n, Gossip: n, Nodes: n, Log: zerolog.Nop(),
		Fail: func(err error) {
			if !errors.Is(err, errDown) {
				defer n.w.locked()()
				n.w.fail("%s: %v", n.id, err)
			}
		},
	})
	done := make(chan struct{})
	n.runs(b)
	n.stop, n.done = stop, done
	go func() {
		defer close(done)
		n.takes(20)
		b.Run(ctx)
	}()
}

func (n *foundling) runs(b *roster.Bootstrapper) {
	defer n.w.locked()()
	n.up = b
}

// kill ends it.
func (n *foundling) kill() {
	if n.up == nil {
		return
	}
	n.runs(nil)
	n.stop()
	<-n.done
}

// fault lets one thing happen.
func (w *founding) fault() {
	n, other := w.nodes[w.dice.IntN(len(w.nodes))], w.nodes[w.dice.IntN(len(w.nodes))]
	way := [2]string{n.id, other.id}
	switch w.dice.IntN(6) {
	case 0, 1:
		n.start()
	case 2:
		n.kill()
	case 3:
		w.turn(w.cut, way)
	case 4:
		w.turn(w.unseen, way)
	case 5: // a quick restart
		n.kill()
		n.start()
	}
	time.Sleep(time.Duration(w.dice.IntN(200)) * time.Millisecond)
}

// turn cuts a way, or mends it.
func (w *founding) turn(ways map[[2]string]bool, way [2]string) {
	defer w.locked()()
	ways[way] = way[0] != way[1] && !ways[way]
}

// whole mends all ways.
func (w *founding) whole() {
	defer w.locked()()
	clear(w.cut)
	clear(w.unseen)
}

// found plays one schedule and returns what was wrong.
func found(t *testing.T, seed uint64) (failure string) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := &founding{dice: rand.New(rand.NewPCG(seed, 0xf0)), cut: map[[2]string]bool{}, unseen: map[[2]string]bool{}}
		w.expect = 2 + w.dice.IntN(4)
		// More may come than are expected, as long as two halves are not enough each.
		for i := range w.expect + w.dice.IntN(w.expect) {
			w.nodes = append(w.nodes, &foundling{w: w, at: i, id: string(rune('a' + i)), dice: rand.New(rand.NewPCG(seed, uint64(i)))})
		}
		for range 5 + w.dice.IntN(40) {
			w.fault()
		}
		w.whole()
		for _, n := range w.nodes {
			n.start()
		}
		time.Sleep(30 * time.Second)
		for _, n := range w.nodes {
			n.kill()
		}
		if len(w.founded) == 0 {
			w.fail("progress: all %d are there, %d are expected, and nobody founds the cluster", len(w.nodes), w.expect)
		}
		failure = w.failure
	})
	return failure
}

// TestFoundingInAnyOrder plays a share of schedules.
func TestFoundingInAnyOrder(t *testing.T) {
	for seed := range uint64(raceflag.Share(120, 30)) {
		if failure := found(t, seed+1); failure != "" {
			t.Fatalf("schedule %d: %s", seed+1, failure)
		}
	}
}
