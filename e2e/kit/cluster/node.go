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

// Node is one shardway process, through all its restarts, and what belongs to
// it. Its methods belong to the goroutine of the test.
type Node struct {
	ID string
	// Addr is where clients reach it, Admin its admin port.
	Addr, Admin string
	// Gossip and Peer are where the other nodes reach it.
	Gossip, Peer string
	// Data is its data directory.
	Data string
	// App is the app behind it.
	App *App
	// Binary is the program of its next process; empty: the cluster's.
	Binary string
	// Relay stands before its peer port; nil unless Options.Relay.
	Relay *peerproxy.Relay

	c     *Cluster
	place place
	flags []string
	proc  *Process
	// fault is the index, in the cluster's list, of what is done to the process now,
	// -1 if it runs.
	fault int
}

// Args is the command line of the node.
func (n *Node) Args() []string {
	run := []string{cmp.Or(n.Binary, n.c.o.Binaries.Node), "run", "--upstream", "http://" + n.App.Addr}
	if n.c.o.Embedded {
		run = append(n.App.command("-embed"), "--")
	}
	args := append(run, "--node", n.ID, "--data", n.Data,
		"--listen", n.Addr, "--admin", n.Admin, "--gossip", n.Gossip, "--peer", n.Peer, "--log-format", "json", "--debug-headers",
	)
	if n.place.host != nil {
		args = append(args, "--insecure") // its addresses are not loopback's
	}
	if n.Relay != nil {
		args = append(args, "--peer-advertise", n.Relay.Addr())
	}
	return oneUpstream(append(args, n.flags...))
}

// oneUpstream returns the arguments with only the last --upstream, which replaces that of
// the node's own app.
func oneUpstream(args []string) []string {
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

// Start starts the node, with these flags beside the ones it always has, and
// does not wait for anything.
func (n *Node) Start(tb testing.TB, more ...string) {
	tb.Helper()
	if n.Running() {
		tb.Fatalf("node %s runs already", n.ID)
	}
	n.c.end(n)
	p, err := n.c.spawn.launch(n.logFile(), n.c.dir, n.place.command(n.c.o.Binaries.command(oneUpstream(append(n.Args(), more...)))...))
	if err != nil {
		tb.Fatal(err)
	}
	n.proc = p
	if n.c.o.Embedded {
		n.App.lives = append(n.App.lives, life{proc: p, records: newRecords(n.App.records())})
	}
	n.c.stalls.track(n.ID, p.Pid)
}

func (n *Node) logFile() string { return filepath.Join(n.c.dir, "node-"+n.ID+".log") }

// Running tells whether the process has not ended. A stopped one counts.
func (n *Node) Running() bool { return n.proc != nil && n.proc.Running() }

// Process is the present process, or the last one.
func (n *Node) Process() *Process { return n.proc }

// Kill is kill -9. The app goes on.
func (n *Node) Kill(tb testing.TB) {
	tb.Helper()
	KillAll(tb, n)
}

// KillAll kills nodes at once, and waits for all of them after that: what waits for one may
// get no processor for long enough that the others go on without it.
func KillAll(tb testing.TB, nodes ...*Node) {
	tb.Helper()
	for _, n := range nodes {
		n.c.begin(n, history.Killed)
	}
	errs := make([]error, len(nodes))
	for i, n := range nodes {
		errs[i] = n.proc.strike()
	}
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
	for _, n := range nodes {
		<-n.proc.done
		n.c.dead(n)
	}
}

// Terminate sends SIGTERM and does not wait.
func (n *Node) Terminate(tb testing.TB) {
	tb.Helper()
	n.c.begin(n, history.Terminated)
	n.c.faults[n.fault].Grace = grace(n.proc.cmd.Args)
	if err := n.proc.Signal(syscall.SIGTERM); err != nil {
		tb.Fatal(err)
	}
}

// Holds tells whether its process restarts in place when it is told to end.
func (n *Node) Holds() bool { return grace(n.proc.cmd.Args) > 0 }

// grace is within what time a process with this command line says that it comes back when
// it is told to end; 0: it hands its shards over.
func grace(args []string) time.Duration {
	flag := func(name, otherwise string) string {
		for i, arg := range args {
			switch value, ok := strings.CutPrefix(arg, name+"="); {
			case ok:
				otherwise = value
			case arg == name && i+1 < len(args):
				otherwise = args[i+1]
			}
		}
		return otherwise
	}
	if flag("--on-shutdown", "handoff") != "hold" {
		return 0
	}
	d, _ := time.ParseDuration(flag("--hold-grace", "8s"))
	return d
}

// Stop sends SIGTERM and waits for the end, which must be a good one.
func (n *Node) Stop(tb testing.TB) {
	tb.Helper()
	n.Terminate(tb)
	n.AwaitExit(tb, 0)
}

// AwaitExit waits for the process to end with a code.
func (n *Node) AwaitExit(tb testing.TB, want int) {
	tb.Helper()
	code, err := n.proc.Wait(Patience)
	if err != nil {
		tb.Fatalf("node %s: %v", n.ID, err)
	}
	if code != want {
		tb.Fatalf("node %s ended with exit code %d, want %d\n%s", n.ID, code, want, n.proc.Output(1000))
	}
	n.c.dead(n)
}

// Ended tells whether the process has ended, by itself or by a signal, and when:
// a reading of history.Now.
func (n *Node) Ended() (at int64, ended bool) {
	if n.Running() {
		return 0, false
	}
	n.c.dead(n)
	return n.c.faults[n.fault].By, true
}

// Pause is SIGSTOP; it returns when the process stands still.
func (n *Node) Pause(tb testing.TB) {
	tb.Helper()
	n.c.begin(n, history.Paused)
	if err := n.proc.Signal(syscall.SIGSTOP); err != nil {
		tb.Fatal(err)
	}
	Await(tb, "node "+n.ID+" is stopped", func() error {
		if !n.proc.stopped() {
			return errors.New("it runs")
		}
		return nil
	})
}

// Continue is SIGCONT.
func (n *Node) Continue(tb testing.TB) {
	tb.Helper()
	// The stop ends before the signal: what the node does from now on counts.
	n.c.end(n)
	if err := n.proc.Signal(syscall.SIGCONT); err != nil {
		tb.Fatal(err)
	}
}

// Wipe empties the data directory of a node that does not run.
func (n *Node) Wipe(tb testing.TB) {
	tb.Helper()
	if n.Running() {
		tb.Fatalf("node %s runs: its data cannot be wiped", n.ID)
	}
	if err := os.RemoveAll(n.Data); err != nil {
		tb.Fatal(err)
	}
}

// Status asks the node.
func (n *Node) Status(ctx context.Context) (Status, error) {
	var s Status
	return s, n.ask(ctx, "/status", &s)
}

// Map asks the node for the committed map.
func (n *Node) Map(ctx context.Context) (Map, error) {
	var m Map
	return m, n.ask(ctx, "/v1/map", &m)
}

// StaleReturns are the shards that have returned to an app which had them before and has not
// restarted.
func (n *Node) StaleReturns(ctx context.Context) (stale []uint32, err error) {
	var list struct {
		Shards []struct {
			Shard uint32 `json:"shard"`
			Stale bool   `json:"stale_return"`
		} `json:"shards"`
	}
	err = n.ask(ctx, "/v1/shards", &list)
	for _, s := range list.Shards {
		if s.Stale {
			stale = append(stale, s.Shard)
		}
	}
	return stale, err
}

// Policy is what operators have asked for, as a node's log says.
type Policy struct {
	Drained, Cordoned []string
	// Since is the entry that changed it last.
	Since uint64
}

// Policy asks the node.
func (n *Node) Policy(ctx context.Context) (Policy, error) {
	var p Policy
	return p, n.ask(ctx, "/v1/policy", &p)
}

// Metrics asks the node.
func (n *Node) Metrics(ctx context.Context) (Metrics, error) {
	var m Metrics
	return m, n.ask(ctx, "/metrics", &m)
}

// Ready is nil if /readyz is green, else it says why not.
func (n *Node) Ready(ctx context.Context) error { return n.ask(ctx, "/readyz", nil) }

func (n *Node) ask(ctx context.Context, path string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := n.c.get(ctx, "http://"+n.Admin+path, v); err != nil {
		return fmt.Errorf("node %s: %w", n.ID, err)
	}
	return nil
}

// Do posts an action to the node's admin port, such as "step-down".
func (n *Node) Do(tb testing.TB, action string, params url.Values) {
	tb.Helper()
	if err := n.Try(tb.Context(), action, params); err != nil {
		tb.Fatal(err)
	}
}

// Try is Do with an error.
func (n *Node) Try(ctx context.Context, action string, params url.Values) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	u := "http://" + n.Admin + "/v1/" + action
	if len(params) > 0 {
		u += "?" + params.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u, nil)
	if err != nil {
		return err
	}
	return n.c.call(r, nil)
}

// Await waits until cond holds for the node's status.
func (n *Node) Await(tb testing.TB, what string, cond func(Status) bool) {
	tb.Helper()
	Await(tb, fmt.Sprintf("node %s: %s", n.ID, what), func() error {
		s, err := n.Status(tb.Context())
		if err == nil && !cond(s) {
			err = fmt.Errorf("status %+v", s)
		}
		return err
	})
}
