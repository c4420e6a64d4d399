package admin_test

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/client"
	"shardway/admin/localsock"
)

// self is a node with three shards, as the local socket shows it.
type self struct{ leaving atomic.Bool }

func (s *self) DrainSelf() api.DrainState {
	s.leaving.Store(true)
	d := s.SelfState()
	d.Warning = "nothing works"
	return d
}

func (s *self) SelfState() api.DrainState {
	return api.DrainState{Node: "n1", Requested: s.leaving.Load(), Shards: 3, Requests: 2, Sockets: 1}
}

// serveSelf serves s in a data directory until the test ends or stop is called.
func serveSelf(t *testing.T, data string, s *self) (stop func()) {
	t.Helper()
	ln, err := localsock.Listen(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- admin.ServeLocal(ctx, ln, s, zerolog.Nop()) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestOwnSocketIsItsOwnersAloneAndGoes(t *testing.T) {
	data, s := t.TempDir(), &self{}
	stop := serveSelf(t, data, s)
	st, err := os.Stat(filepath.Join(data, "self.sock"))
	if err != nil || st.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket is %v, %v, want mode 0600", st, err)
	}
	c, err := client.NewLocal(data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if d, err := c.State(t.Context()); err != nil || d.Requested || s.leaving.Load() {
		t.Errorf("State() = %+v, %v before it was asked", d, err)
	}
	if d, err := c.Drain(t.Context()); err != nil || d != (api.DrainState{Node: "n1", Requested: true, Shards: 3, Requests: 2, Sockets: 1, Warning: "nothing works"}) {
		t.Errorf("Drain() = %+v, %v", d, err)
	}
	stop()
	if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
	if _, err := c.State(t.Context()); err == nil || !strings.Contains(err.Error(), "no node runs on the data directory \""+data+"\"") {
		t.Errorf("without a node: %v", err)
	}
}

// A killed process leaves its socket behind, or the temporary directory of the socket. The next
// process, which holds the lock of the data directory, replaces both. It changes nothing else and
// follows no symbolic link.
func TestWhatAKilledNodeLeftIsReplaced(t *testing.T) {
	data := t.TempDir()
	path := filepath.Join(data, "self.sock")
	var lc net.ListenConfig
	dead, err := lc.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if u, ok := dead.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	if err = dead.Close(); err != nil {
		t.Fatal(err)
	}
	if err = os.MkdirAll(filepath.Join(path+".tmp", "s"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewLocal(data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Drain(t.Context()); err == nil || !strings.Contains(err.Error(), "no node runs on the data directory") {
		t.Errorf("at a stale socket: %v", err)
	}
	serve := serveSelf(t, data, &self{})
	if d, err := c.Drain(t.Context()); err != nil || d.Node != "n1" {
		t.Errorf("Drain() = %+v, %v", d, err)
	}
	serve()

	elsewhere := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(elsewhere, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, path); err != nil {
		t.Fatal(err)
	}
	if _, err := localsock.Listen(t.Context(), data); err == nil || !strings.Contains(err.Error(), path+" exists and is not a socket: remove it") {
		t.Errorf("beside a link: %v", err)
	}
	if b, err := os.ReadFile(elsewhere); err != nil || string(b) != "kept" {
		t.Errorf("what the link leads to is %q, %v", b, err)
	}
}

// The kernel accepts a socket path of up to 107 bytes, and reports only "invalid argument" for a
// longer one.
func TestTooLongSocketPathIsReported(t *testing.T) {
	data := filepath.Join(t.TempDir(), strings.Repeat("d", 108))
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	_, listening := localsock.Listen(t.Context(), data)
	_, asking := client.NewLocal(data)
	for _, err := range []error{listening, asking} {
		if err == nil || !strings.Contains(err.Error(), "a socket in it leaves room for") {
			t.Errorf("with a path of %d bytes: %v", len(data), err)
		}
	}
	short := filepath.Join(t.TempDir(), "d")
	if err := os.Symlink(data, short); err != nil {
		t.Fatal(err)
	}
	serveSelf(t, short, &self{})()
}
