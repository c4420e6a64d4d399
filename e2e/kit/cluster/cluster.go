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

// maxLogPart is the maximum number of bytes of the start, and of the end, of each log that a failed
// test prints.
const maxLogPart = 8_000

// Options are the parameters of a cluster.
type Options struct {
	Binaries Binaries
	// Nodes is the number of nodes that start together. Their IDs are a, b, c, …
	Nodes int
	// Shards is the number of shards of the cluster. 0 means 128: enough for an uneven
	// distribution, and few enough that every test covers each shard.
	Shards int
	// Services are the services of a cluster with several services, in the order of their names. Shards is then
	// their sum, and a node has one app for each of its services. It excludes Embedded.
	Services []Service
	// Flags are passed to every node, after the flags that Start sets. The recording app
	// has no shard state in memory, so nodes return shards at any time (--returns any)
	// unless Flags contain --returns.
	Flags []string
	// Net has a host for every node. nil means that all nodes use loopback addresses.
	Net *netns.Net
	// PeerProxy puts a peerproxy in front of each peer port. It excludes Net.
	PeerProxy bool
	// Secret gives all nodes a secret; see also SecretVariable. It excludes PeerProxy.
	Secret bool
	// Dir is the directory for data and logs, which the caller must remove. Empty means a directory
	// in memory that the cluster removes.
	Dir string
	// Data returns the data directory of a node, which the caller must remove. nil means that all
	// data directories are in Dir.
	Data func(id string) string
	// RealTime gives the processes precedence over all others of the machine, if permitted.
	// It is for tests whose nodes need CPU time without delay.
	RealTime bool
	// Embedded runs each app in the process of its node, so that both start and end together.
	Embedded bool
	// AppFlags are passed to every app, after its usual flags.
	AppFlags []string
}

// Cluster is a set of nodes. Only the goroutine of the test may call its methods.
type Cluster struct {
	opts        Options
	dir         string
	ports       *Ports
	spawner     *spawner
	adminClient *http.Client
	nodes       []*Node
	// faults are the injected faults, drains the requested drains, and stalls the periods without
	// CPU time.
	faults []history.Fault
	drains []history.Drain
	stalls stalls

	mapWatch   *mapWatch
	ctx        context.Context //nolint:containedctx // ends the goroutines of New, at close
	cancel     context.CancelFunc
	background sync.WaitGroup

	// responses are all responses of clients so far. Check has already checked the first
	// checkedResponses of them, and the maps before checkedEpoch.
	responses        []history.Response
	checkedResponses int
	checkedEpoch     uint64
	// testRequests contains, by ID, the requests whose responses the test checks itself. The value
	// is true if a node denied the request.
	testRequests map[string]bool
	// loadCount is the number of loads and single requests so far. It makes request IDs unique.
	loadCount int
	// secrets are the initial secrets of the nodes. nil means no encryption.
	secrets secret.List
}

// Start starts a cluster and returns when it serves every shard. The cluster ends with
// the test.
func Start(tb testing.TB, opts Options) *Cluster {
	tb.Helper()
	cluster := New(tb, opts)
	for range opts.Nodes {
		cluster.Prepare(tb, "--bootstrap-expect", strconv.Itoa(opts.Nodes))
	}
	cluster.AddJoinFlags()
	for _, node := range cluster.nodes {
		node.Start(tb)
	}
	cluster.AwaitServing(tb)
	return cluster
}

// New returns a cluster without nodes.
func New(tb testing.TB, opts Options) *Cluster {
	tb.Helper()
	if opts.Shards == 0 {
		opts.Shards = 128
	}
	if opts.Services != nil {
		opts.Shards = 0
		for _, service := range opts.Services {
			opts.Shards += service.Shards
		}
	}
	dir := opts.Dir
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
	spawn, err := newSpawner(opts.RealTime)
	if err != nil {
		tb.Logf("the processes have no real-time priority: %v", err)
	}
	cluster := &Cluster{
		opts: opts, dir: dir, ports: ports, spawner: spawn, mapWatch: newMapWatch(), testRequests: make(map[string]bool),
		adminClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: new(net.Dialer).DialContext}},
	}
	if opts.usesSecret() {
		cluster.secrets = newSecrets()
	}
	cluster.ctx, cluster.cancel = context.WithCancel(context.Background())
	cluster.background.Go(func() { cluster.stalls.watch(cluster.ctx) })
	tb.Cleanup(func() { cluster.close(tb) })
	return cluster
}

// Prepare adds a node, and starts its app but not the node. The node gets flags after those of
// Options.Flags.
func (c *Cluster) Prepare(tb testing.TB, flags ...string) *Node {
	tb.Helper()
	id := string(rune('a' + len(c.nodes)))
	node := &Node{ID: id, cluster: c, DataDir: filepath.Join(c.dir, "data-"+id), faultIndex: -1}
	c.beginFault(node, history.Terminated) // it does not run yet
	if c.opts.Data != nil {
		node.DataDir = c.opts.Data(id)
	}
	c.assignAddresses(tb, node)
	node.App = &App{cluster: c, name: id, location: node.location, Addr: node.location.controlAddr(c.port(tb))}
	if !c.opts.Embedded {
		node.App.Start(tb)
	}
	if c.opts.Services == nil {
		node.flags = []string{"--shards", strconv.Itoa(c.opts.Shards)}
	} else {
		c.prepareServices(tb, node)
	}
	node.flags = slices.Concat(node.flags, c.SecretFlags(tb, id), c.opts.Flags, flags)
	if !slices.Contains(node.flags, "--returns") {
		node.flags = append(node.flags, "--returns", "any")
	}
	c.nodes = append(c.nodes, node)
	c.background.Go(func() { c.watchMaps(c.ctx, node) })
	return node
}

// assignAddresses sets the host and the addresses of the next node, and starts its peerproxy if the
// options require one.
func (c *Cluster) assignAddresses(tb testing.TB, node *Node) {
	tb.Helper()
	if c.opts.Net != nil {
		node.location.host = c.opts.Net.Host(len(c.nodes))
	}
	node.Addr, node.Admin = node.location.controlAddr(c.port(tb)), node.location.controlAddr(c.port(tb))
	node.Gossip, node.Peer = node.location.dataAddr(c.port(tb)), node.location.dataAddr(c.port(tb))
	if !c.opts.PeerProxy {
		return
	}
	proxy, err := peerproxy.New("127.0.0.1:0", node.Peer)
	if err != nil {
		tb.Fatal(err)
	}
	node.PeerProxy = proxy
}

// Add adds a node that joins all others, and starts it. It does not wait until the node serves.
func (c *Cluster) Add(tb testing.TB, flags ...string) *Node {
	tb.Helper()
	node := c.Prepare(tb, flags...)
	node.flags = append(node.flags, c.joinFlags(node)...)
	node.Start(tb)
	return node
}

// AddJoinFlags gives every node the addresses of all others. It must be called before the
// first start.
func (c *Cluster) AddJoinFlags() {
	for _, node := range c.nodes {
		node.flags = append(node.flags, c.joinFlags(node)...)
	}
}

// joinFlags returns the --join flags for all nodes except node.
func (c *Cluster) joinFlags(node *Node) []string {
	var flags []string
	for _, other := range c.nodes {
		if other != node {
			flags = append(flags, "--join", other.Gossip)
		}
	}
	return flags
}

// Address returns a free address, so that a test can start a node at another address than before.
func (c *Cluster) Address(tb testing.TB) string {
	tb.Helper()
	return location{}.dataAddr(c.port(tb))
}

// port returns a free port, which stays reserved until the end of the test.
func (c *Cluster) port(tb testing.TB) int {
	tb.Helper()
	port, err := c.ports.Free()
	if err != nil {
		tb.Fatal(err)
	}
	return port
}

// Node returns the node with this ID.
func (c *Cluster) Node(id string) *Node {
	for _, node := range c.nodes {
		if node.ID == id {
			return node
		}
	}
	panic(fmt.Sprintf("cluster: no node %q in this test", id))
}

// Nodes returns all nodes, running or not.
func (c *Cluster) Nodes() []*Node { return slices.Clone(c.nodes) }

// Running returns the nodes whose process has not ended.
func (c *Cluster) Running() []*Node {
	return slices.DeleteFunc(c.Nodes(), func(node *Node) bool { return !node.Running() })
}

// Others returns the running nodes except the given ones.
func (c *Cluster) Others(excluded ...*Node) []*Node {
	return slices.DeleteFunc(c.Running(), func(node *Node) bool { return slices.Contains(excluded, node) })
}

// Dir returns the scratch directory of the cluster.
func (c *Cluster) Dir() string { return c.dir }

// close ends all processes, and removes the data. It fails the test after a crash or if two maps
// have one epoch, and prints the logs of a failed test.
func (c *Cluster) close(tb testing.TB) {
	tb.Helper()
	c.cancel()
	c.background.Wait()
	errs := c.killProcesses(tb)
	c.spawner.close()
	c.ports.Close()
	for _, conflict := range c.mapWatch.conflicts {
		tb.Error(conflict)
	}
	if tb.Failed() {
		c.printLogs(tb)
	}
	switch {
	case os.Getenv("SHARDWAY_E2E_KEEP") != "":
		tb.Logf("data and logs are in %s", c.dir)
	case c.opts.Dir == "":
		errs = append(errs, os.RemoveAll(c.dir))
	}
	if err := errors.Join(errs...); err != nil {
		tb.Error(err)
	}
}

// killProcesses ends all processes and peerproxies. It fails the test for each process that has
// crashed.
func (c *Cluster) killProcesses(tb testing.TB) (errs []error) {
	tb.Helper()
	for _, node := range c.nodes {
		if node.process != nil {
			errs = append(errs, node.process.kill())
			if line := node.process.crashLine(); line != "" {
				tb.Errorf("node %s crashed: %s", node.ID, line)
			}
		}
		for _, app := range node.apps() {
			for _, process := range app.processes {
				errs = append(errs, process.process.kill())
				if line := process.process.crashLine(); line != "" {
					tb.Errorf("app %s crashed: %s", app.name, line)
				}
			}
		}
		if node.PeerProxy != nil {
			errs = append(errs, node.PeerProxy.Close())
		}
	}
	return errs
}

// printLogs prints the start and the end of the log of each node.
func (c *Cluster) printLogs(tb testing.TB) {
	tb.Helper()
	for _, node := range c.nodes {
		if node.process != nil {
			tb.Logf("log of node %s (%s):\n%s", node.ID, strings.Join(node.Args(), " "), node.process.Output(maxLogPart))
		}
	}
}
