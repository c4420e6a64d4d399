//go:build linux

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardway/e2e/kit/history"
	"shardway/e2e/kit/peerproxy"
)

// Node is a shardway process, through all its restarts, with its app and data. Only the
// goroutine of the test may call its methods.
type Node struct {
	ID string
	// Addr is its address for clients, and Admin the address of its admin port.
	Addr, Admin string
	// Gossip and Peer are its addresses for other nodes.
	Gossip, Peer string
	// DataDir contains its data.
	DataDir string
	// App is the app behind the node.
	App *App
	// Instances are all its apps, with Options.Services or if AddInstance was called; App is the first one.
	Instances []*App
	// Binary is the path of the program that its next process runs. Empty means
	// Binaries.Node of the cluster.
	Binary string
	// PeerProxy is the proxy in front of its peer port. It is nil without Options.PeerProxy.
	PeerProxy *peerproxy.Proxy

	cluster  *Cluster
	location location
	flags    []string
	process  *Process
	// faultIndex is the index in Cluster.faults of the current fault of the process. -1 means
	// that the process runs.
	faultIndex int
}

// Args returns the command line of the node.
func (n *Node) Args() []string {
	run := []string{cmp.Or(n.Binary, n.cluster.opts.Binaries.Node), "run"}
	if n.cluster.opts.Services == nil {
		run = append(run, "--upstream", "http://"+n.App.Addr)
	}
	if n.cluster.opts.Embedded {
		run = append(n.App.command("-embed"), "--")
	}
	args := append(run, "--node", n.ID, "--data", n.DataDir,
		"--listen", n.Addr, "--admin", n.Admin, "--gossip", n.Gossip, "--peer", n.Peer, "--log-format", "json", "--debug-headers",
	)
	if n.location.host != nil {
		args = append(args, "--insecure") // its addresses are not loopback addresses
	}
	if n.PeerProxy != nil {
		args = append(args, "--peer-advertise", n.PeerProxy.Addr())
	}
	return n.keepLastUpstream(append(args, n.flags...))
}

// keepLastUpstream removes the first --upstream from args if another one follows. A test can so
// replace the app of a node by a later flag. A node with several instances keeps all.
func (n *Node) keepLastUpstream(args []string) []string {
	if len(n.Instances) > 0 {
		return args
	}
	for i, arg := range slices.Backward(args) {
		if arg != "--upstream" && !strings.HasPrefix(arg, "--upstream=") {
			continue
		}
		if first := slices.Index(args, "--upstream"); first >= 0 && first < i {
			return slices.Delete(slices.Clone(args), first, first+2)
		}
		return args
	}
	return args
}

// Start starts a process of the node with additional flags. It does not wait until the node serves.
func (n *Node) Start(tb testing.TB, flags ...string) {
	tb.Helper()
	if n.Running() {
		tb.Fatalf("node %s is already running", n.ID)
	}
	n.cluster.endFault(n)
	args := n.keepLastUpstream(append(n.Args(), flags...))
	command := n.location.command(n.cluster.opts.Binaries.nodeCommand(args)...)
	process, err := n.cluster.spawner.launch(n.logFile(), n.cluster.dir, command)
	if err != nil {
		tb.Fatal(err)
	}
	n.process = process
	if n.cluster.opts.Embedded {
		n.App.processes = append(n.App.processes, appProcess{process: process, records: newRecords(n.App.recordsFile())})
	}
	n.cluster.stalls.track(n.ID, process.Pid)
}

func (n *Node) logFile() string { return filepath.Join(n.cluster.dir, "node-"+n.ID+".log") }

// Running reports whether the process has not ended. A paused process is treated as running.
func (n *Node) Running() bool { return n.process != nil && n.process.Running() }

// Process returns the current process, or the last one if the node does not run.
func (n *Node) Process() *Process { return n.process }

// Kill sends SIGKILL to the node. Its app continues.
func (n *Node) Kill(tb testing.TB) {
	tb.Helper()
	KillAll(tb, n)
}

// KillAll sends SIGKILL to all nodes, and then waits until they have ended. It does not wait after
// each signal: the test could lose CPU time in the meantime, and the nodes that still run would take over
// the shards of the killed ones.
func KillAll(tb testing.TB, nodes ...*Node) {
	tb.Helper()
	for _, node := range nodes {
		node.cluster.beginFault(node, history.Killed)
	}
	errs := make([]error, len(nodes))
	for i, node := range nodes {
		errs[i] = node.process.sigkill()
	}
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
	for _, node := range nodes {
		<-node.process.done
		node.cluster.recordExit(node)
	}
}

// Terminate sends SIGTERM to the node and does not wait until it has ended.
func (n *Node) Terminate(tb testing.TB) {
	tb.Helper()
	n.cluster.beginFault(n, history.Terminated)
	n.cluster.faults[n.faultIndex].Grace = holdGrace(n.process.cmd.Args)
	if err := n.process.Signal(syscall.SIGTERM); err != nil {
		tb.Fatal(err)
	}
}

// RestartsInPlace reports whether other nodes wait after SIGTERM until the node has restarted
// (--on-shutdown hold), instead of taking over its shards.
func (n *Node) RestartsInPlace() bool { return holdGrace(n.process.cmd.Args) > 0 }

// holdGrace returns how long other nodes wait for the restart of a process with this command line
// after SIGTERM. Zero means that the process hands over its shards instead.
func holdGrace(args []string) time.Duration {
	flagValue := func(name, result string) string {
		for i, arg := range args {
			switch value, ok := strings.CutPrefix(arg, name+"="); {
			case ok:
				result = value
			case arg == name && i+1 < len(args):
				result = args[i+1]
			}
		}
		return result
	}
	if flagValue("--on-shutdown", "handoff") != "hold" {
		return 0
	}
	duration, _ := time.ParseDuration(flagValue("--hold-grace", "8s"))
	return duration
}

// Stop sends SIGTERM and waits for exit code 0.
func (n *Node) Stop(tb testing.TB) {
	tb.Helper()
	n.Terminate(tb)
	n.AwaitExit(tb, 0)
}

// AwaitExit waits until the process has ended. It fails the test if the exit code is not wantCode.
func (n *Node) AwaitExit(tb testing.TB, wantCode int) {
	tb.Helper()
	code, err := n.process.Wait(AwaitTimeout)
	if err != nil {
		tb.Fatalf("node %s: %v", n.ID, err)
	}
	if code != wantCode {
		tb.Fatalf("node %s ended with exit code %d, want %d\n%s", n.ID, code, wantCode, n.process.Output(1000))
	}
	n.cluster.recordExit(n)
}

// Exited reports whether the process has ended, on its own or by a signal, and when: a
// value of history.Now.
func (n *Node) Exited() (at int64, ended bool) {
	if n.Running() {
		return 0, false
	}
	n.cluster.recordExit(n)
	return n.cluster.faults[n.faultIndex].LatestExit, true
}

// Pause sends SIGSTOP to the node, and returns when the kernel has stopped the process.
func (n *Node) Pause(tb testing.TB) {
	tb.Helper()
	n.cluster.beginFault(n, history.Paused)
	if err := n.process.Signal(syscall.SIGSTOP); err != nil {
		tb.Fatal(err)
	}
	Await(tb, "node "+n.ID+" is stopped", func() error {
		if !n.process.isStopped() {
			return errors.New("it is still running")
		}
		return nil
	})
}

// Continue sends SIGCONT to the node.
func (n *Node) Continue(tb testing.TB) {
	tb.Helper()
	// The fault must end before the signal, so that it excuses no action of the continued node.
	n.cluster.endFault(n)
	if err := n.process.Signal(syscall.SIGCONT); err != nil {
		tb.Fatal(err)
	}
}

// Wipe removes the data directory of a node that does not run.
func (n *Node) Wipe(tb testing.TB) {
	tb.Helper()
	if n.Running() {
		tb.Fatalf("node %s is running, so its data cannot be wiped", n.ID)
	}
	if err := os.RemoveAll(n.DataDir); err != nil {
		tb.Fatal(err)
	}
}

// Status returns the status of the node.
func (n *Node) Status(ctx context.Context) (Status, error) {
	var status Status
	return status, n.getAdmin(ctx, "/status", &status)
}

// Map returns the committed map of the node.
func (n *Node) Map(ctx context.Context) (Map, error) {
	var shardMap Map
	err := n.getAdmin(ctx, "/v1/map", &shardMap)
	shardMap.services = n.cluster.ServiceRanges()
	return shardMap, err
}

// StaleReturns returns the shards that have returned to an app that owned them before and has not
// restarted since. Such an app may still cache the old state of the shards.
func (n *Node) StaleReturns(ctx context.Context) (stale []uint32, err error) {
	var list struct {
		Shards []struct {
			Shard uint32 `json:"shard"`
			Stale bool   `json:"stale_return"`
		} `json:"shards"`
	}
	err = n.getAdmin(ctx, "/v1/shards", &list)
	for _, shard := range list.Shards {
		if shard.Stale {
			stale = append(stale, shard.Shard)
		}
	}
	return stale, err
}

// Policy contains the requests of operators that are in force according to a node.
type Policy struct {
	// Drained and Cordoned are the IDs of nodes.
	Drained, Cordoned []string
	// Since is the index of the log entry that changed the policy last.
	Since uint64
}

// Policy returns the policy of the node.
func (n *Node) Policy(ctx context.Context) (Policy, error) {
	var policy Policy
	return policy, n.getAdmin(ctx, "/v1/policy", &policy)
}

// Metrics returns the metrics of the node.
func (n *Node) Metrics(ctx context.Context) (Metrics, error) {
	var metrics Metrics
	return metrics, n.getAdmin(ctx, "/metrics", &metrics)
}

// Ready returns nil if /readyz responds with 200. Otherwise the error contains the response.
func (n *Node) Ready(ctx context.Context) error { return n.getAdmin(ctx, "/readyz", nil) }

const (
	// adminTimeout limits a request that reads from an admin port.
	adminTimeout = 5 * time.Second
	// actionTimeout limits an action, which may wait for an election.
	actionTimeout = 20 * time.Second
)

// getAdmin reads a resource of the admin port of the node into target. nil discards it.
func (n *Node) getAdmin(ctx context.Context, path string, target any) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	if err := n.cluster.get(ctx, "http://"+n.Admin+path, target); err != nil {
		return fmt.Errorf("node %s: %w", n.ID, err)
	}
	return nil
}

// PerformAction posts an action, such as "step-down", to the admin port of the node. It fails the
// test if the node rejects the action.
func (n *Node) PerformAction(tb testing.TB, action string, params url.Values) {
	tb.Helper()
	if err := n.TryAction(tb.Context(), action, params); err != nil {
		tb.Fatal(err)
	}
}

// TryAction posts an action to the admin port of the node, and returns an error if the node rejects
// it.
func (n *Node) TryAction(ctx context.Context, action string, params url.Values) error {
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	requestURL := "http://" + n.Admin + "/v1/" + action
	if len(params) > 0 {
		requestURL += "?" + params.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, requestURL, nil)
	if err != nil {
		return err
	}
	return n.cluster.do(r, nil)
}

// AwaitStatus waits until isMet returns true for the status of the node. condition describes what it
// waits for.
func (n *Node) AwaitStatus(tb testing.TB, condition string, isMet func(Status) bool) {
	tb.Helper()
	Await(tb, fmt.Sprintf("node %s: %s", n.ID, condition), func() error {
		status, err := n.Status(tb.Context())
		if err == nil && !isMet(status) {
			err = fmt.Errorf("status %+v", status)
		}
		return err
	})
}
