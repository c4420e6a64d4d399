package sdnotify_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardway/internal/sdnotify"
)

// listenAsManager listens at a socket and returns what the manager there gets next.
func listenAsManager(t *testing.T, name string) func() string {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return func() string {
		b := make([]byte, 4096)
		n, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}

func TestManagerReceivesEachNotification(t *testing.T) {
	dir, err := os.MkdirTemp("", "sd") //nolint:usetesting // short enough for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, name := range []string{filepath.Join(dir, "n"), "@" + dir + "/abstract"} {
		next := listenAsManager(t, name)
		m := sdnotify.New([]string{"HOME=/root", "NOTIFY_SOCKET=" + name})
		if !m.IsPresent() {
			t.Fatalf("%s: nobody asked", name)
		}
		if err := m.Notify(sdnotify.Ready, sdnotify.Status("serves\nREADY=0")); err != nil {
			t.Fatal(err)
		}
		if got, want := next(), "READY=1\nSTATUS=serves READY=0"; got != want {
			t.Errorf("%s heard %q, want %q", name, got, want)
		}
		if err := m.Notify(sdnotify.Reloading()...); err != nil {
			t.Fatal(err)
		}
		if got := next(); !strings.HasPrefix(got, "RELOADING=1\nMONOTONIC_USEC=") || strings.HasSuffix(got, "=0") {
			t.Errorf("%s heard %q", name, got)
		}
	}
}

func TestNotificationWithoutManagerDoesNothing(t *testing.T) {
	for _, environ := range [][]string{nil, {"NOTIFY_SOCKET="}, {"NOTIFY_SOCKET=vsock:2:1"}} {
		m := sdnotify.New(environ)
		if err := m.Notify(sdnotify.Ready); err != nil || m.IsPresent() {
			t.Errorf("%v: %v, asked %v", environ, err, m.IsPresent())
		}
	}
	m := sdnotify.New([]string{"NOTIFY_SOCKET=/nowhere/at/all"})
	if err := m.Notify(sdnotify.Ready); err == nil {
		t.Error("a socket that is not there was told")
	}
}

// A manager that reads nothing holds nobody up for ever: a node that stops tells it so.
func TestManagerThatDoesNotReadIsGivenUp(t *testing.T) {
	name := "@" + t.TempDir()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	m := sdnotify.New([]string{"NOTIFY_SOCKET=" + name})
	for err == nil { // the kernel keeps a few for it
		err = m.Notify(sdnotify.Stopping)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it ended with %v", err)
	}
}
