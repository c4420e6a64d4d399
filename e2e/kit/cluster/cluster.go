//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"shardway/e2e/kit/history"
	"shardway/e2e/kit/netns"
	"shardway/e2e/kit/peerproxy"
	"shardway/internal/secret"
)

// logEnds is how much of the beginning and of the end of each log a failed test
// prints.
const logEnds = 8_000

// Options say what to start.
type Options struct {
	Binaries Binaries
	// Nodes is how many start together; they are named a, b, c, …
	Nodes int
	// Shards is the cluster's number of shards; 0 is 128: big enough to be
	// uneven, small enough that every test covers each shard.
	Shards int
	// Flags are given to every node, after the ones that Start sets. The recording app keeps
	// nothing of a shard in memory, so nodes let shards return at any time (--returns any)
	// unless Flags contain --returns.
	Flags []string
	// Net has a host for every node there will be; nil is loopback.
	Net *netns.Net
	// Relay puts a relay before each peer port. Not with Net.
	Relay bool
	// Secret gives all nodes one; see also SealVariable. Not with Relay.
	Secret bool
	// Dir holds data and logs; empty is a directory in memory. It is the
	// caller's to remove.
	Dir string
	// Data, if not nil, chooses the data directory of a node; it is the caller's to
	// remove.
	Data func(id string) string
	// Urgent processes run before all others of the machine, if that may be: for a
	// test whose nodes must have the processor when they want it.
	Urgent bool
	// Embedded has each app in the process of its node: they start, stop and die
	// together.
	Embedded bool
	// AppFlags are given to every app, after the ones it always has.
	AppFlags []string
}

// Cluster is a set of nodes. Its methods belong to the goroutine of the test.
type Cluster struct {
	o     Options
	dir   string
	ports *Ports
	spawn *spawner
	ops   *http.Client
	nodes []*Node
	// faults are what was done to the nodes, drains what was asked of them, stalls what
	// the machine did.
	faults []history.Fault
	drains []history.Drain
	stalls stalls

	watch    *watch
	watching context.Context //nolint:containedctx // ends what New started, at close
	unwatch  context.CancelFunc
	watchers sync.WaitGroup

	// answers are all that clients got so far; the first judged of them have
	// been judged, and the maps before the one of the epoch judgedMap.
	answers   []history.Response
	judged    int
	judgedMap uint64
	// asked are the ids of requests whose answers the test judges itself, and whether
	// they were denied.
	asked map[string]bool
	loads int
	// secrets are those that nodes begin with; none: all is plain.
	secrets secret.List
}

// Start starts a cluster and returns when it serves every shard. It ends with
// the test.
func Start(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	c := New(tb, o)
	for range o.Nodes {
		c.Prepare(tb, "--bootstrap-expect", strconv.Itoa(o.Nodes))
	}
	c.Acquaint()
	for _, n := range c.nodes {
		n.Start(tb)
	}
	c.AwaitServing(tb)
	return c
}

// New makes a cluster without nodes.
func New(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	if o.Shards == 0 {
		o.Shards = 128
	}
	dir := o.Dir
	if dir == "" {
		var err error
		if dir, err = Scratch(); err != nil {
			tb.Fatal(err)
		}
	}
	ports, err := NewPorts()
	if err != nil {
		tb.Fatal(err)
	}
	spawn, err := newSpawner(o.Urgent)
	if err != nil {
		tb.Logf("the processes compete with all others: %v", err)
	}
	c := &Cluster{
		o: o, dir: dir, ports: ports, spawn: spawn, watch: newWatch(), asked: make(map[string]bool),
		ops: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: new(net.Dialer).DialContext}},
	}
	if o.wantsSecret() {
		c.secrets = newSecrets()
	}
	c.watching, c.unwatch = context.WithCancel(context.Background())
	c.watchers.Go(func() { c.stalls.watch(c.watching) })
	tb.Cleanup(func() { c.close(tb) })
	return c
}

// Prepare makes a further node with its app, and does not start the node. flags
// come after Options.Flags.
func (c *Cluster) Prepare(tb testing.TB, flags ...string) *Node {
	tb.Helper()
	id := string(rune('a' + len(c.nodes)))
	n := &Node{ID: id, c: c, Data: filepath.Join(c.dir, "data-"+id), fault: -1}
	c.begin(n, history.Terminated) // it does not run yet
	if c.o.Data != nil {
		n.Data = c.o.Data(id)
	}
	if c.o.Net != nil {
		n.place.host = c.o.Net.Host(len(c.nodes))
	}
	n.Addr, n.Admin = n.place.control(c.port(tb)), n.place.control(c.port(tb))
	n.Gossip, n.Peer = n.place.data(c.port(tb)), n.place.data(c.port(tb))
	if c.o.Relay {
		r, err := peerproxy.New("127.0.0.1:0", n.Peer)
		if err != nil {
			tb.Fatal(err)
		}
		n.Relay = r
	}
	n.App = &App{c: c, name: id, place: n.place, Addr: n.place.control(c.port(tb))}
	if !c.o.Embedded {
		n.App.Start(tb)
	}
	n.flags = slices.Concat([]string{"--shards", strconv.Itoa(c.o.Shards)}, c.SecretFlags(tb, id), c.o.Flags, flags)
	if !slices.Contains(n.flags, "--returns") {
		n.flags = append(n.flags, "--returns", "any")
	}
	c.nodes = append(c.nodes, n)
	c.watchers.Go(func() { c.follow(c.watching, n) })
	return n
}

// Add makes a further node, which joins those there are, and starts it. It does
// not wait.
func (c *Cluster) Add(tb testing.TB, flags ...string) *Node {
	tb.Helper()
	n := c.Prepare(tb, flags...)
	n.flags = append(n.flags, c.joins(n)...)
	n.Start(tb)
	return n
}

// Acquaint gives every node the addresses of all the others, before any starts.
func (c *Cluster) Acquaint() {
	for _, n := range c.nodes {
		n.flags = append(n.flags, c.joins(n)...)
	}
}

// joins are the addresses of all nodes but n.
func (c *Cluster) joins(n *Node) []string {
	var flags []string
	for _, other := range c.nodes {
		if other != n {
			flags = append(flags, "--join", other.Gossip)
		}
	}
	return flags
}

// Address returns a free address, for a node that starts elsewhere next time.
func (c *Cluster) Address(tb testing.TB) string {
	tb.Helper()
	return place{}.data(c.port(tb))
}

func (c *Cluster) port(tb testing.TB) int {
	tb.Helper()
	port, err := c.ports.Free()
	if err != nil {
		tb.Fatal(err)
	}
	return port
}

// Node finds a node by its id.
func (c *Cluster) Node(id string) *Node {
	for _, n := range c.nodes {
		if n.ID == id {
			return n
		}
	}
	panic(fmt.Sprintf("cluster: no node %q in this test", id))
}

// Nodes are all nodes, running or not.
func (c *Cluster) Nodes() []*Node { return slices.Clone(c.nodes) }

// Running are the nodes whose process has not ended.
func (c *Cluster) Running() []*Node {
	return slices.DeleteFunc(c.Nodes(), func(n *Node) bool { return !n.Running() })
}

// Others are the running nodes but the given ones.
func (c *Cluster) Others(but ...*Node) []*Node {
	return slices.DeleteFunc(c.Running(), func(n *Node) bool { return slices.Contains(but, n) })
}

// Dir is the cluster's scratch directory.
func (c *Cluster) Dir() string { return c.dir }

// close ends everything, in the reverse order of its start, and tells what a
// failed test needs to know.
func (c *Cluster) close(tb testing.TB) {
	tb.Helper()
	c.unwatch()
	c.watchers.Wait()
	var errs []error
	for _, n := range c.nodes {
		if n.proc != nil {
			errs = append(errs, n.proc.kill())
			if line := n.proc.crash(); line != "" {
				tb.Errorf("node %s broke: %s", n.ID, line)
			}
		}
		for _, l := range n.App.lives {
			errs = append(errs, l.proc.kill())
			if line := l.proc.crash(); line != "" {
				tb.Errorf("app %s broke: %s", n.ID, line)
			}
		}
		if n.Relay != nil {
			errs = append(errs, n.Relay.Close())
		}
	}
	c.spawn.close()
	c.ports.Close()
	for _, conflict := range c.watch.conflicts {
		tb.Error(conflict)
	}
	if tb.Failed() {
		c.dump(tb)
	}
	switch {
	case os.Getenv("SHARDWAY_E2E_KEEP") != "":
		tb.Logf("kept: %s", c.dir)
	case c.o.Dir == "":
		errs = append(errs, os.RemoveAll(c.dir))
	}
	if err := errors.Join(errs...); err != nil {
		tb.Error(err)
	}
}

// dump prints the ends of the logs.
func (c *Cluster) dump(tb testing.TB) {
	tb.Helper()
	for _, n := range c.nodes {
		if n.proc != nil {
			tb.Logf("log of node %s (%s):\n%s", n.ID, strings.Join(n.Args(), " "), n.proc.Output(logEnds))
		}
	}
}
