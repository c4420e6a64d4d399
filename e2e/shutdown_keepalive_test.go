//go:build linux

package e2e_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
)

// keeper is a client that keeps its connection until the server announces the close, and
// never retries.
type keeper struct {
	addr  string
	asked *atomic.Int64
	conn  net.Conn
	r     *bufio.Reader
}

// run sends POST requests with pauses, until no process listens.
func (k *keeper) run() error {
	for i := 0; ; i++ {
		if k.conn == nil {
			conn, err := net.DialTimeout("tcp", k.addr, 5*time.Second)
			// A connection that arrives while the listener closes is reset before it is
			// accepted.
			if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) {
				return nil
			}
			if err != nil {
				return err
			}
			k.conn, k.r = conn, bufio.NewReader(conn)
		}
		if err := k.ask(i); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
		k.asked.Add(1)
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // think time of a client
	}
}

func (k *keeper) ask(i int) error {
	_ = k.conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := fmt.Fprintf(k.conn, "POST /k HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k%d\r\nContent-Length: 2\r\n\r\nhi", rand.IntN(500)); err != nil {
		return err
	}
	resp, err := http.ReadResponse(k.r, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s after %d: %s", resp.Status, i, body)
	}
	if resp.Close {
		_ = k.conn.Close()
		k.conn = nil
	}
	return nil
}

// TestSigtermFailsNoKeepAliveClient stops a node while clients that never retry send POST
// requests over persistent connections. No accepted request is dropped. The node reports
// that it is not ready for the lame-duck time before it stops listening. By default this
// takes no longer than other nodes need to take over its shards.
func TestSigtermFailsNoKeepAliveClient(t *testing.T) {
	t.Run("for a while", func(t *testing.T) {
		const duck = 700 * time.Millisecond
		stopsKeptClients(t, duck, "--lame-duck", duck.String())
	})
	t.Run("by default", func(t *testing.T) { stopsKeptClients(t, 0) })
}

func stopsKeptClients(t *testing.T, duck time.Duration, flags ...string) {
	t.Helper()
	c := start(t, 3, flags...)
	node := c.Leader(t)
	var asked atomic.Int64
	var clients sync.WaitGroup
	failures := make(chan error, 50) // one for each client
	for range cap(failures) {
		clients.Go(func() {
			k := &keeper{addr: node.Addr, asked: &asked}
			if err := k.run(); err != nil {
				failures <- err
			}
		})
	}
	cluster.Await(t, "requests", func() error {
		if asked.Load() < 500 {
			return errors.New("few")
		}
		return nil
	})
	startedAt := time.Now()
	node.Terminate(t)
	if duck > 0 {
		cluster.Await(t, "not ready", func() error {
			if err := node.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "draining") {
				return fmt.Errorf("/readyz: %w", err)
			}
			return nil
		})
	}
	red, before := time.Now(), asked.Load()
	clients.Wait() // until no process listens
	if elapsed := time.Since(startedAt); elapsed < duck {
		t.Errorf("the listener was closed after %v, want %v at least", elapsed, duck)
	}
	if duck > 0 && asked.Load() == before {
		t.Errorf("no request got a response after /readyz had failed at %v", red.Sub(startedAt))
	}
	node.AwaitExit(t, 0)
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	t.Logf("%d requests, the listener closed after %v", asked.Load(), time.Since(startedAt))
}
