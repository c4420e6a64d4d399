//go:build linux

package e2e_test

import (
	"bytes"
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
	"syscall"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/procgroup"
)

// TestStartupErrorsAreOneLine starts nodes with invalid settings. Each exits with code 1
// and one line that names the problem.
//
//nolint:tparallel // its parts are one cluster's, one after the other
func TestStartupErrorsAreOneLine(t *testing.T) {
	t.Parallel() // it waits for processes most of the time
	c := start(t, 2)
	node := c.Node("a")
	t.Run("wrong shard count", func(t *testing.T) {
		n := newNodeArgs(t, c)
		wantStartupError(t, withFlags(n, "--join", node.Gossip, "--shards", "64"), "64", strconv.Itoa(shards), "--shards")
	})
	t.Run("another cluster's node", func(t *testing.T) {
		n := newNodeArgs(t, c)
		other := start(t, 1).Node("a")
		other.Stop(t)
		wantStartupError(t, withFlags(n, "--join", node.Gossip, "--shards", strconv.Itoa(shards), "--data", other.DataDir, "--node", other.ID), "cluster", "--data")
	})
	for _, flag := range []string{"--listen", "--admin", "--gossip", "--peer"} {
		t.Run("taken port of "+flag, func(t *testing.T) {
			ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ln.Close() }()
			wantStartupError(t, withFlags(newNodeArgs(t, c), flag, ln.Addr().String()), ln.Addr().String(), flag)
		})
	}
	t.Run("data directory that is a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		wantStartupError(t, withFlags(newNodeArgs(t, c), "--data", file), file, "--data")
	})
	t.Run("unwritable data directory", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		wantStartupError(t, withFlags(newNodeArgs(t, c), "--data", dir), dir, "--data")
	})
	t.Run("data directory in use", func(t *testing.T) {
		wantStartupError(t, withFlags(newNodeArgs(t, c), "--data", node.DataDir), node.DataDir, strconv.Itoa(node.Process().Pid))
	})
	t.Run("node id in use", func(t *testing.T) {
		n := newNodeArgs(t, c)
		wantStartupError(t, withFlags(n, "--node", "b", "--join", node.Gossip, "--shards", strconv.Itoa(shards)), "duplicate-node", `"b"`, c.Node("b").Peer)
	})
	t.Run("copied data directory", func(t *testing.T) {
		dir := filepath.Join(c.Dir(), "copied")
		if err := cluster.CopyData(dir, c.Node("b").DataDir); err != nil {
			t.Fatal(err)
		}
		n := newNodeArgs(t, c)
		wantStartupError(t, withFlags(n, "--node", "b", "--data", dir, "--join", node.Gossip, "--shards", strconv.Itoa(shards)), "duplicate-node", `"b"`, c.Node("b").Peer)
	})
	// The cluster is not affected.
	traffic := c.Load(t, c.Running(), cluster.Traffic{Rate: 400})
	traffic.AwaitStarted(t, 2*shards)
	traffic.Finish(t)
	if epochs := len(c.Maps()); epochs > 2 {
		t.Errorf("the cluster had %d maps", epochs)
	}
}

// newNodeArgs returns a command line with unused addresses and a new directory.
func newNodeArgs(t *testing.T, c *cluster.Cluster) []string {
	t.Helper()
	ports, err := cluster.NewPorts()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ports.Close)
	args := []string{"--node", "newcomer", "--data", filepath.Join(c.Dir(), "newcomer-"+strings.ReplaceAll(t.Name(), "/", "-"))}
	for _, flag := range []string{"--listen", "--admin", "--gossip", "--peer"} {
		port, err := ports.Free()
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, flag, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return append(append(args, "--log-format", "json"), c.SecretFlags(t, "newcomer")...)
}

// withFlags replaces or adds flags.
func withFlags(args []string, flags ...string) []string {
	for i := 0; i < len(flags); i += 2 {
		if at := slices.Index(args, flags[i]); at >= 0 {
			args[at+1] = flags[i+1]
		} else {
			args = append(args, flags[i], flags[i+1])
		}
	}
	return args
}

// wantStartupError runs a node that must exit on its own, with one line after its log.
func wantStartupError(t *testing.T, args []string, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cluster.AwaitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binaries(t).Node, append([]string{"run"}, args...)...)
	if os.Geteuid() == 0 && strings.Contains(t.Name(), "unwritable") {
		const nobody = 65534 // root can write everywhere
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if at := slices.Index(cmd.Args, "--secret-file"); at >= 0 {
			cmd.Args = slices.Delete(cmd.Args, at, at+2) // this user cannot read it
		}
	}
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	wait, err := procgroup.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	err = wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("shardway run %s: %v, want exit code 1\n%s", strings.Join(args, " "), err, &out)
	}
	var said []string
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "{") {
			said = append(said, strings.TrimSpace(line))
		}
	}
	if len(said) != 1 {
		t.Fatalf("it said %d lines, want 1: %q\n%s", len(said), said, &out)
	}
	for _, w := range words {
		if !strings.Contains(said[0], w) {
			t.Errorf("it said %q, want it to name %s", said[0], w)
		}
	}
}
