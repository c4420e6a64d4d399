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

// role says which node a fault hurts.
type role int

const (
	anybody role = iota + 1
	follower
	leader
)

// String names the role.
func (r role) String() string {
	switch r {
	case anybody:
		return "any node"
	case follower:
		return "follower"
	case leader:
		return "leader"
	}
	return fmt.Sprintf("role(%d)", int(r))
}

// stuck bounds how long a cluster without faults may take to serve again.
const stuck = 90 * time.Second

// world is the cluster of a run, what hurts it, and what it went through.
type world struct {
	*bench

	o     Options
	c     *cluster.Cluster
	net   *netns.Net
	disks map[string]*faultfs.Disk // by node; none: they cannot be had here
	store *store.Store

	// members are those who should serve; spare is prepared, to join.
	members []*cluster.Node
	spare   *cluster.Node

	trace trace
	// present names the faults of the round; violated tells that a judgement found
	// something.
	present  string
	violated bool

	known     map[string]bool // ids of judged requests, and whether they were denied
	following *following      // through all rounds

	// Of the present round.
	rng     *rand.Rand
	number  int
	paired  bool
	leading *cluster.Node // at its start
	first   cluster.Map   // at its start
	victims []*cluster.Node
	healing []func()        // notes the end of what was done to nodes
	drains  []history.Drain // of all rounds
	cordons []history.Cordon
	failing []*cluster.Node // whose disk failed: they may end themselves, and are started again
	traffic *traffic
	stale   *staleReturns // nil without Caches
	span    time.Duration
	began   int64 // a reading of history.Now
}

func newWorld(b *bench, o Options) *world {
	w := &world{bench: b, o: o, known: make(map[string]bool), disks: make(map[string]*faultfs.Disk), present: "start"}
	w.trace.begin()
	return w
}

// launch starts the cluster.
func (w *world) launch() {
	o := w.o
	n, err := netns.New(o.Network, o.Nodes+1)
	w.must(err)
	w.net = n
	w.Cleanup(func() { w.check(n.Close()) })
	dir, err := cluster.Scratch()
	w.must(err)
	w.Cleanup(func() { w.check(removeAll(dir)) })
	data := func(id string) string { return filepath.Join(dir, "data-"+id) }
	w.mount(data)
	w.store, err = store.Listen(n.Gateway + ":0")
	w.must(err)
	w.Cleanup(func() { w.check(w.store.Close()) })
	w.c = cluster.New(w, cluster.Options{
		Binaries: o.Binaries, Shards: o.Shards, Flags: o.flags(), Net: n, Secret: o.Secret, Dir: dir, Data: data,
		AppFlags: o.appFlags(w.store.URL(), dir), Embedded: o.Embedded,
	})
	for i := range o.Nodes {
		w.members = append(w.members, w.c.Prepare(w, append(o.own(i), "--bootstrap-expect", strconv.Itoa(o.Nodes))...))
	}
	w.spare = w.c.Prepare(w, o.own(o.Nodes)...)
	w.c.Acquaint()
	for _, m := range w.members {
		m.Start(w)
	}
	w.recover()
	w.traffic = newTraffic(w)
	w.Cleanup(w.traffic.close)
	w.following = follow(w, o.Followers)
	w.Cleanup(w.following.close)
}

// mount gives each node a disk of its own, where that can be.
func (w *world) mount(data func(id string) string) {
	if faultfs.Available() != nil {
		return
	}
	for i := range w.o.Nodes + 1 {
		id := string(rune('a' + i))
		d, err := faultfs.Mount(data(id), diskSize)
		w.must(err)
		w.disks[id] = d
		w.Cleanup(func() { w.check(unmount(d)) })
	}
}

// unmount removes a disk, and leaves what is on it if that is to be kept.
func unmount(d *faultfs.Disk) error {
	if !kept() {
		return d.Unmount()
	}
	left := d.Dir + ".kept"
	err := cluster.CopyData(left, d.Dir)
	return errors.Join(err, d.Unmount(), os.Rename(left, d.Dir))
}

var _ testing.TB = (*world)(nil)

// Failed tells whether anything went wrong so far: then the logs are of interest.
func (w *world) Failed() bool { return w.violated || w.bench.Failed() }

// must ends the run with an error.
func (w *world) must(err error) {
	if err != nil {
		w.Fatal(fmt.Errorf("chaos: %w", err))
	}
}

// check has the run fail with an error, and goes on.
func (w *world) check(err error) {
	if err != nil {
		w.Error(err)
	}
}

// note adds to the trace.
func (w *world) note(format string, args ...any) { w.trace.add(fmt.Sprintf(format, args...)) }

// pick chooses a member of a role that no fault of the round has hit yet; of any
// role if there is none. Two faults at once never hit the same node.
func (w *world) pick(r role) *cluster.Node {
	var from []*cluster.Node
	for _, n := range w.members {
		if slices.Contains(w.victims, n) || r == follower && n == w.leading {
			continue
		}
		if r == leader && n == w.leading {
			from = []*cluster.Node{n}
			break
		}
		from = append(from, n)
	}
	n := from[w.rng.IntN(len(from))]
	w.victims = append(w.victims, n)
	w.note("chosen: %s", n.ID)
	return n
}

// shuffled are the members in a random order.
func (w *world) shuffled() []*cluster.Node {
	nodes := slices.Clone(w.members)
	w.rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	return nodes
}

func (w *world) others(but ...*cluster.Node) []*cluster.Node {
	return slices.DeleteFunc(slices.Clone(w.members), func(n *cluster.Node) bool { return slices.Contains(but, n) })
}

// hurt notes that something is done to a node by other means than signals, from now
// on until healed is called.
func (w *world) hurt(k history.FaultKind, n *cluster.Node) {
	w.note("%s: %s", n.ID, k)
	w.healing = append(w.healing, n.Hurt(k))
	if k == history.DiskFault {
		w.traffic.forbidRetry(n) // it may end itself
	}
}

// healed notes the end of all that was noted by hurt.
func (w *world) healed() {
	for _, f := range w.healing {
		f()
	}
	w.healing = nil
}

func (w *world) kill(n *cluster.Node) {
	w.note("%s: killed", n.ID)
	w.traffic.forbidRetry(n)
	n.Kill(w)
}

// start starts a node unless it runs.
func (w *world) start(n *cluster.Node) {
	if !n.Running() {
		w.note("%s: started", n.ID)
		n.Start(w)
		w.traffic.allowRetry(n)
	}
}

// ended notes when a node ended itself that has no disk, if it did. It lets go of
// its connections at any time from the failed write to its end, seconds later.
func (w *world) ended(n *cluster.Node) {
	if _, ended := n.Ended(); ended {
		w.note("%s: has ended itself", n.ID)
	}
}

// revive has a node started again that ended itself, or is about to: it takes a
// moment from the failed write to the end.
func (w *world) revive(n *cluster.Node) {
	w.failing = append(w.failing, n)
	w.reviveAll()
}

func (w *world) reviveAll() {
	if w.o.Embedded && w.c.Starved(w.began) > 0 {
		// What a starved process was told to end may go on for too long, and so it ends.
		for _, n := range w.members {
			if !n.Running() && !slices.Contains(w.failing, n) {
				w.failing = append(w.failing, n)
			}
		}
	}
	for _, n := range w.failing {
		if !n.Running() {
			w.ended(n)
			w.start(n)
			w.traffic.forbidRetry(n) // it may end again
		}
	}
}

func (w *world) stop(n *cluster.Node) {
	w.note("%s: SIGSTOP", n.ID)
	n.Pause(w)
}

func (w *world) cont(n *cluster.Node) {
	w.note("%s: SIGCONT", n.ID)
	n.Continue(w)
}

// wait lets time pass.
func (w *world) wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.Context().Done():
		w.Fatal(w.Context().Err())
	}
}

// flow waits for the round's span, measured in requests begun.
func (w *world) flow() { w.traffic.flow(w, w.span) }

// carryOn waits until all but some nodes serve, if theirs is the only fault.
func (w *world) carryOn(but ...*cluster.Node) {
	if w.paired {
		w.flow()
		return
	}
	w.c.AwaitShards(w, w.others(but...)...)
	w.note("the others serve")
}

// recover waits until all members serve, and report one map without orphans.
func (w *world) recover() {
	began := time.Now()
	cluster.AwaitFor(w, stuck, "all serve again", func() error {
		w.reviveAll()
		return w.whole()
	})
	w.note("all serve after %v", time.Since(began).Round(time.Millisecond))
}

// whole is nil if all members serve and report the same map.
func (w *world) whole() error {
	m, err := w.c.Serving(w, w.members...)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range w.members {
		other, err := n.Map(w.Context())
		if err != nil {
			return err
		}
		if other.Epoch != m.Epoch || len(m.Moves(other)) > 0 {
			errs = append(errs, fmt.Errorf("%s has another map than %s: epochs %d and %d, %d shards differ",
				n.ID, w.members[0].ID, other.Epoch, m.Epoch, len(m.Moves(other))))
		}
		s, err := n.Status(w.Context())
		if err != nil {
			return err
		}
		if s.Shards.Orphaned > 0 {
			errs = append(errs, fmt.Errorf("%s knows of %d orphaned shards", n.ID, s.Shards.Orphaned))
		}
	}
	return errors.Join(errs...)
}

// retry tries until it works.
func (w *world) retry(what string, f func() error) { cluster.Await(w, what, f) }

// keys are keys of a kind, one for each shard, which no other round has.
func (w *world) keys(kind string) []string {
	return load.FreshKeysIn(fmt.Sprintf("%s%d", kind, w.number), w.o.Shards, 1, func(int) bool { return true })
}
