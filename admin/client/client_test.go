package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardway/admin/client"
	"shardway/internal/problem"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func newClient(t *testing.T, addr string) *client.Client {
	t.Helper()
	c, err := client.New(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestConnectionRefusedNamesAddressAndFlag(t *testing.T) {
	ln := listen(t)
	addr := ln.Addr().String()
	_ = ln.Close()
	_, err := newClient(t, addr).Status(t.Context())
	if err == nil || !errors.Is(err, syscall.ECONNREFUSED) || !strings.HasPrefix(err.Error(), "nothing listens on "+addr+": ") || !strings.Contains(err.Error(), "--admin ADDR") {
		t.Errorf("Status = %v, want that nothing listens there and the flag", err)
	}
}

func TestPortOfAnotherServerIsDetected(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem.Write(w, problem.New(problem.NoKey, "no header X-Shard-Key"))
	}))
	defer srv.Close()
	addr := srv.Listener.Addr().String()
	_, err := newClient(t, addr).Status(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), addr+" is not a Shardway admin port (GET /status: 400 Bad Request)") {
		t.Errorf("Status = %v, want that it is not an admin port", err)
	}
}

func TestTimeoutNamesTheAddress(t *testing.T) {
	ln := listen(t)
	defer func() { _ = ln.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := newClient(t, ln.Addr().String()).Status(ctx)
	if err == nil || !strings.HasPrefix(err.Error(), "no answer from ") || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Status = %v, want no answer in time", err)
	}
}

// The suggested address can be copied as it is.
func TestTLSErrorSuggestsAPlainHTTPAddress(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	c, err := client.New("https://" + s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "name it as "+s.URL+" if") {
		t.Errorf("Status = %v, want %s named", err, s.URL)
	}
}

func TestNewAcceptsHostPortAndURL(t *testing.T) {
	for addr, ok := range map[string]bool{
		"127.0.0.1:8081": true, ":8081": true, "[::1]:8081": true, "node-1:8081": true, "http://node-1:8081": true, "http://node-1:8081/": true,
		"": false, "8081": false, "node-1": false, "node-1:": false, "https://x:1": true, "https://x:1/y": false, "http://x:1/status": false, "ftp://x": false, "a:b:c": false, "http://u@x:1": false,
	} {
		_, err := client.New(addr)
		if (err == nil) != ok {
			t.Errorf("New(%q) = %v, want ok = %v", addr, err, ok)
		}
		if err != nil && !strings.Contains(err.Error(), "--admin") {
			t.Errorf("New(%q) = %v: does not name --admin", addr, err)
		}
	}
}
