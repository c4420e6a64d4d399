package gossip_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/node/gossip"
)

// real starts a member on a loopback socket.
func real(t *testing.T, o gossip.Options) (*gossip.Gossip, func()) {
	t.Helper()
	if o.BindAddr == "" {
		o.BindAddr = "127.0.0.1:0"
	}
	o.Log = zerolog.Nop()
	g, err := gossip.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	stop := func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	return g, stop
}

func alive(t *testing.T, n int, among ...*gossip.Gossip) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	for _, g := range among {
		for {
			seen := 0
			for _, m := range g.Members() {
				if m.Status == gossip.Alive {
					seen++
				}
			}
			if seen == n {
				break
			}
			select {
			case <-g.Changed():
			case <-time.After(100 * time.Millisecond):
			case <-deadline:
				t.Fatalf("%d members alive, want %d: %v", seen, n, g.Members())
			}
		}
	}
}

func TestRealSocketsSnapshotAndKeys(t *testing.T) {
	key := []byte(strings.Repeat("k", 32))
	snap := filepath.Join(t.TempDir(), "gossip")
	a, stopA := real(t, gossip.Options{Tags: node("a"), Keys: [][]byte{key}})
	defer stopA()
	bo := gossip.Options{Tags: node("b"), Keys: [][]byte{key}, SnapshotPath: snap}
	bo.JoinAddrs = []string{a.Addr().String()}
	b, stopB := real(t, bo)
	alive(t, 2, a, b)
	bo.BindAddr = b.Addr().String()
	stopB()

	// Without a join address, from the snapshot alone.
	bo.JoinAddrs = nil
	b, stopB = real(t, bo)
	defer stopB()
	alive(t, 2, a, b)

	c, stopC := real(t, gossip.Options{Tags: node("c"), JoinAddrs: []string{a.Addr().String()}})
	defer stopC()
	for c.NoOtherNodeReason() != nil && strings.Contains(c.NoOtherNodeReason().Error(), "seen yet") {
		select {
		case <-c.Changed():
		case <-time.After(10 * time.Millisecond):
		}
	}
	if len(a.Members()) != 2 || c.NoOtherNodeReason() == nil {
		t.Errorf("a node without the key came in: %v", a.Members())
	}
}

func TestTakenPortIsNamed(t *testing.T) {
	a, stop := real(t, gossip.Options{Tags: node("a")})
	defer stop()
	g, err := gossip.New(gossip.Options{Tags: node("b"), BindAddr: a.Addr().String(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	err = g.Listen(t.Context())
	if err == nil || !strings.Contains(err.Error(), a.Addr().String()) || !strings.Contains(err.Error(), "--gossip") {
		t.Errorf("Listen on a taken port: %v", err)
	}
}
