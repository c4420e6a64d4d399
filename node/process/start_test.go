package process_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/config"
	"shardway/node/process"
)

// If SIGTERM arrives during startup, the proxy must take over the listener before it shuts down.
// Otherwise it would close the listener together with connections that the kernel has accepted.
func TestConnectionDuringStartupGetsAResponse(t *testing.T) {
	flags := []string{"--data", t.TempDir(), "--queue-wait", "100ms", "--dead-after", "2500ms", "--key", "header:X-Shard-Key"}
	addrs := map[string]string{}
	names := []string{"listen", "peer", "admin", "gossip"}
	for port := 26000; len(addrs) < len(names); port++ { // below the range of ephemeral ports
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr)
		if err != nil {
			continue
		}
		if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
		name := names[len(addrs)]
		addrs[name] = addr
		flags = append(flags, "--"+name, addr)
	}
	c, err := config.Load(flags, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, terminate := context.WithCancel(t.Context())
	p, err := process.New(ctx, &c, "test", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addrs["listen"])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err = conn.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\nX-Shard-Key: k\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	terminate()
	if err = p.Run(ctx); err != nil {
		t.Errorf("Run = %v", err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%v, want an answer", err)
	}
	if _ = res.Body.Close(); res.StatusCode != http.StatusServiceUnavailable || !res.Close {
		t.Errorf("answered %s, close %v, want 503 and a close", res.Status, res.Close)
	}
}
