//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardway/e2e/kit/cluster"
)

// startTimeout is the timeout for the start of a child, and for any other wait.
const startTimeout = 30 * time.Second

// benchRun contains the resources of one run of the command: ports, files and child processes.
type benchRun struct {
	dir      string
	isBuilt  bool // the binary of the node is built from this source
	ports    *cluster.Ports
	children []*process
	backends []string
	backend  *process
	maps     []cluster.Map // the shard map of each cluster of several nodes
	// certificate is the path of a file with a certificate and its key. All setups with TLS
	// between wrk and the proxy use it.
	certificate string
}

// close kills the children in the reverse order of their start.
func (b *benchRun) close() error {
	var errs []error
	for _, process := range slices.Backward(b.children) {
		errs = append(errs, process.stop())
	}
	return errors.Join(errs...)
}

// addr returns a free address.
func (b *benchRun) addr() (string, error) {
	port, err := b.ports.Free()
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), nil
}

// addrs returns n free addresses.
func (b *benchRun) addrs(n int) ([]string, error) {
	all := make([]string, n)
	for i := range all {
		var err error
		if all[i], err = b.addr(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// launch starts a child and waits until it accepts connections.
func (b *benchRun) launch(ctx context.Context, name, addr string, env []string, args ...string) (*process, error) {
	child, err := start(filepath.Join(b.dir, name+".log"), env, args...)
	if err != nil {
		return nil, err
	}
	b.children = append(b.children, child)
	return child, await(ctx, name, func() error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			output, _ := os.ReadFile(child.log) // the output of the child helps more than the error
			return fmt.Errorf("%w\n%s", err, output)
		}
		return conn.Close()
	})
}

// await retries until try succeeds.
func await(ctx context.Context, condition string, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("bench: %s: %w", condition, err)
		}
	}
}

// writeFile writes a file of the run and returns its path.
func (b *benchRun) writeFile(name, text string) (string, error) {
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	return path, nil
}

// startSetups starts all setups that this machine supports, the backends first.
func (b *benchRun) startSetups(ctx context.Context, opts options) ([]*setup, error) {
	var err error
	if opts.node, err = b.build(ctx, opts.node); err != nil {
		return nil, err
	}
	if err := b.startBackends(ctx); err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("wrk"); err != nil {
		return nil, errors.New("bench: wrk is not installed: apt-get install wrk")
	}
	var all []*setup
	if slices.ContainsFunc(opts.cases, func(tc testCase) bool { return tc.withMetricsAndLogs }) {
		observed, err := b.startObserved(ctx, opts.node)
		if err != nil {
			return nil, err
		}
		all = append(all, observed...)
	}
	if slices.ContainsFunc(opts.cases, func(tc testCase) bool { return !tc.withMetricsAndLogs }) {
		compared, err := b.startCompared(ctx, opts)
		if err != nil {
			return nil, err
		}
		all = append(all, compared...)
	}
	return slices.DeleteFunc(all, func(candidate *setup) bool { return !opts.setupFilter.MatchString(candidate.name) }), nil
}

// build returns the path of the node binary. It is binary, or if that is empty, a new binary built
// from this source.
func (b *benchRun) build(ctx context.Context, binary string) (string, error) {
	if binary != "" {
		return binary, nil
	}
	built, err := cluster.Build(ctx, b.dir)
	b.isBuilt = err == nil
	return built.Node, err
}

// startCompared starts all setups except those of startObserved: direct, nginx, HAProxy, and the
// clusters of two nodes. A proxy that is not installed is skipped.
func (b *benchRun) startCompared(ctx context.Context, opts options) ([]*setup, error) {
	if err := b.writeCertificate(); err != nil {
		return nil, err
	}
	nodes, err := b.startNodes(ctx, opts.node, "")
	if err != nil {
		return nil, err
	}
	withSecret, err := b.startNodes(ctx, opts.node, clusterTLS)
	if err != nil {
		return nil, err
	}
	withEmbeddedApp, err := b.startNodes(ctx, opts.node, embedded)
	if err != nil {
		return nil, err
	}
	withTLS, err := b.startNodes(ctx, opts.node, clientTLS)
	if err != nil {
		return nil, err
	}
	withTLS[0].usesTLS = true
	// withSecret[0] is omitted: with one hop, no request leaves the node, so the secret has no cost.
	nodes = append(nodes, withSecret[1], b.withBackendCost(nodes[0]), withEmbeddedApp[0], withTLS[0])
	all := []*setup{{name: "direct", target: b.backends[0]}}
	if opts.otherNode != "" {
		comparison, err := b.startNodes(ctx, opts.otherNode, otherBinary)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, comparison...)
	}
	for _, startProxy := range []func(context.Context) ([]*setup, error){b.startNginxSetups, b.startHAProxySetups} {
		setups, err := startProxy(ctx)
		if missing := new(notInstalledError); errors.As(err, &missing) {
			fmt.Fprintln(os.Stderr, "skipped:", missing)
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, setups...)
	}
	return append(all, nodes...), nil
}

// startBackends starts one backend process that listens on three addresses. With a single
// address, the consistent hash of nginx and HAProxy would have nothing to select.
func (b *benchRun) startBackends(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if b.backends, err = b.addrs(3); err != nil { //nolint:contextcheck // probing a port of this machine is over at once
		return err
	}
	// The backend runs on one thread, because it competes with the measured processes for CPU
	// time.
	b.backend, err = b.launch(ctx, "backend", b.backends[2], []string{"GOMAXPROCS=1"}, self, "-backend", strings.Join(b.backends, ","))
	return err
}

// notInstalledError names a program that is not installed.
type notInstalledError struct{ program, pkg string }

// Error returns how to install it.
func (e *notInstalledError) Error() string {
	return fmt.Sprintf("%s is not installed: apt-get install %s", e.program, e.pkg)
}

// find returns the path of an installed program.
func find(program, pkg string) (string, error) {
	for _, candidate := range []string{program, "/usr/sbin/" + program} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path, nil
		}
	}
	return "", &notInstalledError{program, pkg}
}

// version returns the version that a program reports.
func version(ctx context.Context, args ...string) string {
	output, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput() //nolint:gosec // an installed program
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(output), "\n")
	return first
}
