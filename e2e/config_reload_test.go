//go:build linux

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"shardway/e2e/kit/cluster"
)

// statusWithoutKey requests /probe of a node without a key, and returns the status.
func statusWithoutKey(ctx context.Context, node *cluster.Node) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+node.Addr+"/probe", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// wantStatusWithoutKey fails the test unless a request without a key gets this status.
func wantStatusWithoutKey(t *testing.T, node *cluster.Node, want int) {
	t.Helper()
	if got, err := statusWithoutKey(t.Context(), node); err != nil || got != want {
		t.Errorf("without a key: %d, %v, want %d", got, err, want)
	}
}

// reloadConfig writes the file of the node, sends SIGHUP, and waits for a new line of its log
// with these words.
func reloadConfig(t *testing.T, node *cluster.Node, file, text string, words ...string) {
	t.Helper()
	before, err := os.ReadFile(node.Process().Log)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := node.Process().Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	cluster.Await(t, fmt.Sprintf("a line with %q", words), func() error {
		now, err := os.ReadFile(node.Process().Log)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(now[len(before):])) {
			if containsAll(line, words) {
				return nil
			}
		}
		return errors.New("not there")
	})
}

func containsAll(line string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return true
}

// TestSighupReloadsUnderLoad changes settings of a running node under load. No request
// fails, an invalid file changes nothing, and the log reports which settings need a
// restart.
func TestSighupReloadsUnderLoad(t *testing.T) {
	dir := t.TempDir()
	file, log := filepath.Join(dir, "s.yaml"), filepath.Join(dir, "access.log")
	if err := os.WriteFile(file, []byte("access_log: "+log+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, 1, "--config", file)
	node := c.Nodes()[0]
	traffic := c.Load(t, c.Running(), cluster.Traffic{})
	traffic.AwaitStarted(t, 100)
	wantStatusWithoutKey(t, node, 400)

	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	next := "access_log: " + log + "\nprobe_path: /probe\nmax_voters: 3\n"
	reloadConfig(t, node, file, next, "settings reloaded", `"changed":["probe-path"]`, `"needs_restart":["max-voters"]`)
	wantStatusWithoutKey(t, node, 200)
	reloadConfig(t, node, file, "probe_path: /other\nkey: [nonsense]\n", "old settings stay", "nonsense")
	wantStatusWithoutKey(t, node, 200)
	reloadConfig(t, node, file, next, "settings reloaded", `"changed":[]`)
	traffic.AwaitStarted(t, 100)
	traffic.Finish(t)

	cluster.Await(t, "lines in both files", func() error {
		for _, name := range []string{log + ".1", log} {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if !bytes.Contains(b, []byte(`"status":200`)) || !bytes.Contains(b, []byte(`"key_hash":"`)) || bytes.Contains(b, []byte(`"key":"`)) {
				return fmt.Errorf("%s: %.300s", name, b)
			}
		}
		return nil
	})
}
