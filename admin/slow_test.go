package admin_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
	"shardway/internal/simnet"
)

// inBubble runs f in a synctest bubble with a server of the cluster that c returns.
func inBubble(t *testing.T, c func() api.Cluster, f func(dial func() net.Conn)) {
	t.Helper()
	serverInBubble(t, func() *admin.Server { return admin.New(admin.Options{API: apitest.SetOf(c()), Log: zerolog.Nop()}) },
		func(_ *admin.Server, dial func() net.Conn, _ func()) { f(dial) })
}

// serverInBubble runs f in a synctest bubble with the server that made returns. stop begins its
// shutdown.
func serverInBubble(t *testing.T, made func() *admin.Server, f func(s *admin.Server, dial func() net.Conn, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(simnet.Config{})
		host := n.Host("a")
		addr := host.Addr(8081)
		ln, err := host.Listen(addr)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		s := made()
		go func() { served <- s.Serve(ctx, ln) }()
		f(s, func() net.Conn {
			conn, err := host.Dial(ctx, addr)
			if err != nil {
				t.Fatal(err)
			}
			return conn
		}, cancel)
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve = %v, want nil", err)
		}
		n.Close()
	})
}

// exchange sends the bytes of one request and returns the response.
func exchange(t *testing.T, conn net.Conn, raw string) (status int, body string) {
	t.Helper()
	if _, err := io.WriteString(conn, raw); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// slow is a node that needs 25 s for an action.
type slow struct{ *fake }

func (s slow) Do(ctx context.Context, _ api.Action) error {
	done := time.NewTimer(25 * time.Second)
	defer done.Stop()
	select {
	case <-done.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestSlowActionIsNotCutShort(t *testing.T) {
	for name, raw := range map[string]string{
		"query": "POST /v1/remove?node=n3 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
		"body":  "POST /v1/remove HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"node\":\"n3\"}",
	} {
		inBubble(t, func() api.Cluster { return slow{newFake()} }, func(dial func() net.Conn) {
			conn := dial()
			defer func() { _ = conn.Close() }()
			begun := time.Now()
			if status, body := exchange(t, conn, raw); status != 200 || time.Since(begun) != 25*time.Second {
				t.Errorf("%s: %d %s after %v, want 200 after 25s", name, status, body, time.Since(begun))
			}
		})
	}
}

func TestLongPollOutlivesTheOrdinaryTimeouts(t *testing.T) {
	inBubble(t, func() api.Cluster { return newFake() }, func(dial func() net.Conn) {
		conn := dial()
		defer func() { _ = conn.Close() }()
		begun := time.Now()
		status, _ := exchange(t, conn, "GET /v1/map?after=17&wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if status != 200 || time.Since(begun) != time.Minute {
			t.Errorf("%d after %v, want 200 after a minute", status, time.Since(begun))
		}
	})
}

func TestSlowClientsAreCut(t *testing.T) {
	for raw, want := range map[string]time.Duration{
		"GET /status HTTP/1.1\r\nHo": 5 * time.Second,
		"POST /v1/remove HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{": 10 * time.Second,
		"GET /nope HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\n\r\n{":                                         10 * time.Second,
		"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n":                                                               time.Minute, // idle after the response
	} {
		inBubble(t, func() api.Cluster { return newFake() }, func(dial func() net.Conn) {
			conn := dial()
			defer func() { _ = conn.Close() }()
			begun := time.Now()
			if _, err := io.WriteString(conn, raw); err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(conn)
			if took := time.Since(begun).Round(time.Second); took != want {
				t.Errorf("%.20q: connection lasted %v (%v), want %v; got %s", raw, took, err, want, b)
			}
		})
	}
}
