//go:build linux

package e2e_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
	"shardway/internal/secret"
)

func startWithSecret(tb testing.TB, flags ...string) *cluster.Cluster {
	tb.Helper()
	return cluster.Start(tb, cluster.Options{Binaries: binaries(tb), Nodes: 3, Shards: shards, Flags: flags, Secret: true})
}

// TestRotationUnderLoadFailsNoRequest replaces the secret twice under load. No request
// fails, no shard moves, and a node with the old secret is refused.
func TestRotationUnderLoadFailsNoRequest(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	c := startWithSecret(t)
	startedAt, before := history.Now(), c.AwaitServing(t)
	first := c.Node("a")
	old, err := secret.ReadFile(c.SecretFile("a"))
	if err != nil {
		t.Fatal(err)
	}
	traffic := c.Load(t, c.Running(), cluster.Traffic{Rate: 400})
	traffic.AwaitStarted(t, 400)
	for i, n := range []*cluster.Node{c.Leader(t), c.Follower(t)} {
		out, code := shardway(t, "rotate-secret", "--admin", n.Admin)
		if code != 0 || !strings.Contains(out, "is the only one on a, b, c") {
			t.Fatalf("rotation %d: exit %d: %s", i, code, out)
		}
		traffic.AwaitStarted(t, 400)
	}
	traffic.Finish(t)
	wantSame(t, c, startedAt, before, c.AwaitServing(t))
	var have secret.List
	for _, n := range c.Nodes() {
		l, err := secret.ReadFile(c.SecretFile(n.ID))
		if err != nil || len(l) != 1 || l.Equal(old) || have != nil && !l.Equal(have) {
			t.Fatalf("node %s has %v, %v", n.ID, l, err)
		}
		have = l
	}
	// A restarted node reads the new secret from its file. The old secret is not
	// accepted.
	b := c.Follower(t)
	b.Stop(t)
	b.Start(t)
	c.AwaitServing(t)
	if err := secret.WriteFile(c.SecretFile("late"), old); err != nil {
		t.Fatal(err)
	}
	late := c.Prepare(t, "--join", first.Gossip, "--secret-file", c.SecretFile("late"))
	late.Start(t)
	cluster.Await(t, "the old secret is refused in words", func() error {
		err := late.Ready(t.Context())
		if err == nil {
			t.Fatal("the old secret opens the cluster")
		}
		if !strings.Contains(err.Error(), "it has another secret") {
			return err
		}
		return nil
	})
}

// TestRotationStopsAtAMissingNode checks that the rotation names a missing node, changes
// nothing, and continues when the node is back.
func TestRotationStopsAtAMissingNode(t *testing.T) {
	c := startWithSecret(t)
	gone := c.Follower(t)
	gone.Kill(t)
	c.AwaitServing(t)
	out, code := shardway(t, "rotate-secret", "--admin", c.Leader(t).Admin)
	if code != 1 || !strings.Contains(out, `node "`+gone.ID+`" is missing`) || !strings.Contains(out, "nothing was changed") {
		t.Errorf("rotate-secret: exit %d: %s", code, out)
	}
	gone.Start(t)
	c.AwaitServing(t)
	if out, code = shardway(t, "rotate-secret", "--admin", c.Leader(t).Admin); code != 0 {
		t.Errorf("rotate-secret: exit %d: %s", code, out)
	}
}

// TestPortsOfClusterWithSecretRequireIt connects to each port without the secret.
//
//nolint:tparallel // its parts are one cluster's, one after the other
func TestPortsOfClusterWithSecretRequireIt(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	c := startWithSecret(t)
	startedAt := history.Now()
	before := c.AwaitServing(t)
	a := c.Node("a")
	own, err := secret.ReadFile(c.SecretFile("a"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("plain preface", func(t *testing.T) {
		got := exchangeBytes(t, a.Peer, []byte("SHWY\x01\x00\x12\x04\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01z\x00\x01a\x00"))
		if !bytes.Contains(got, []byte("requires TLS")) {
			t.Errorf("response %q, want a hint about TLS", got)
		}
	})
	for name, text := range map[string]string{
		"HTTP":    "GET / HTTP/1.1\r\nHost: a\r\nShardway-Key: x\r\n\r\n",
		"nothing": "",
		"zeros":   strings.Repeat("\x00", 4096),
	} {
		t.Run("plain "+name, func(t *testing.T) {
			if got := exchangeBytes(t, a.Peer, []byte(text)); bytes.Contains(got, []byte("HTTP/1.1 200")) || bytes.Contains(got, []byte("SHWY\x02\x01")) {
				t.Errorf("answered %q", got)
			}
		})
	}
	seal := func(l secret.List, node string) *secret.TLSWrapper {
		trust, err := secret.Derive(l, node)
		if err != nil {
			t.Fatal(err)
		}
		return secret.NewTLSWrapper(trust)
	}
	t.Run("another cluster's certificate", func(t *testing.T) {
		other := secret.List{secret.Generate(time.Now())}
		if _, err := openControlStream(t, a.Peer, seal(other, "b"), "b"); err == nil {
			t.Error("let in")
		}
	})
	t.Run("unknown node of the right authority", func(t *testing.T) {
		got, err := openControlStream(t, a.Peer, seal(own, "mallory"), "mallory")
		if err != nil || !bytes.Contains(got, []byte(`"mallory" is not known here`)) {
			t.Errorf("response %q, %v, want unknown", got, err)
		}
	})
	t.Run("known node with another's certificate", func(t *testing.T) {
		got, err := openControlStream(t, a.Peer, seal(own, "mallory"), "b")
		if err != nil || !bytes.Contains(got, []byte(`not for node "b"`)) {
			t.Errorf("response %q, %v, want refused", got, err)
		}
	})
	t.Run("no ALPN", func(t *testing.T) {
		raw, err := net.Dial("tcp", a.Peer)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = raw.Close() }()
		_ = raw.SetDeadline(time.Now().Add(10 * time.Second))
		tc := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
		if _, err := tc.Read(make([]byte, 1)); err == nil {
			t.Error("let in")
		}
	})
	t.Run("plain node", func(t *testing.T) {
		n := c.Prepare(t, "--join", a.Gossip)
		args := n.Args()
		if at := indexOf(args, "--secret-file"); at >= 0 {
			args = append(args[:at:at], args[at+2:]...)
		}
		cmd := exec.Command(args[0], args[1:]...)
		var log bytes.Buffer
		cmd.Stdout, cmd.Stderr = &log, &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cluster.Await(t, "the node without a secret gets the reason", func() error {
			err := n.Ready(t.Context())
			if err == nil {
				t.Fatal("it is let in")
			}
			if !strings.Contains(err.Error(), "it encrypts its gossip and this node does not") {
				return err
			}
			return nil
		})
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	// The cluster was not affected.
	traffic := c.Load(t, c.Running(), cluster.Traffic{Rate: 400})
	traffic.AwaitStarted(t, 2*shards)
	traffic.Finish(t)
	after := c.AwaitServing(t)
	wantSame(t, c, startedAt, before, after)
	key := after.Keys("b", 1)[0]
	if got := c.SendRequest(t, a, load.Request{Key: key}); !got.OK() {
		t.Errorf("a forwarded request: %d %s", got.Status, got.Error)
	}
}

func indexOf(all []string, one string) int {
	for i, s := range all {
		if s == one {
			return i
		}
	}
	return -1
}

// exchangeBytes sends bytes to a port and returns all bytes until it is closed.
func exchangeBytes(t *testing.T, addr string, b []byte) []byte {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write(b); err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	got, _ := io.ReadAll(conn)
	return got
}

// openControlStream opens a control stream as node, and returns the response.
func openControlStream(t *testing.T, addr string, s *secret.TLSWrapper, node string) ([]byte, error) {
	t.Helper()
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	_ = raw.SetDeadline(time.Now().Add(10 * time.Second))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := s.Client(ctx, raw, "a")
	if err != nil {
		return nil, err
	}
	// kind and boot; empty log position, disk, cluster, node, disk and destination
	body := "\x04\x00\x00\x00\x00\x00\x00\x00\x01" + strings.Repeat("\x00", 32+8+32) + "\x00" + string(rune(len(node))) + node + "\x00\x01a\x00"
	if _, err := conn.Write(append([]byte{'S', 'H', 'W', 'Y', 2, 0, byte(len(body))}, body...)); err != nil {
		return nil, err
	}
	return io.ReadAll(conn)
}
