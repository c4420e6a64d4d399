package peer_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"shardway/peer"
)

func TestWrongIdentityIsRefusedWithBothValues(t *testing.T) {
	for _, tc := range []struct {
		name         string
		dialer, port string // cluster IDs
		node, disk   string // expected by the dialer
		kind         peer.Kind
		code         peer.Refusal
		reasonHas    []string
	}{
		{name: "cluster", dialer: "c1", port: "c2", node: "b", kind: peer.Forward, code: peer.RefusedClusterMismatch, reasonHas: []string{`"c1"`, `"c2"`}},
		{name: "raft cluster", dialer: "c1", port: "c2", node: "b", disk: "d2", kind: peer.Raft, code: peer.RefusedClusterMismatch, reasonHas: []string{`"c1"`, `"c2"`}},
		{name: "control cluster", dialer: "c1", port: "c2", node: "b", kind: peer.Control, code: peer.RefusedClusterMismatch, reasonHas: []string{`"c1"`, `"c2"`}},
		{name: "node", dialer: "c1", port: "c1", node: "x", kind: peer.Forward, code: peer.RefusedWrongNode, reasonHas: []string{`"x"`, `"b"`}},
		{name: "disk", dialer: "c1", port: "c1", node: "b", disk: "old", kind: peer.Raft, code: peer.RefusedWrongDisk, reasonHas: []string{`"old"`, `"d2"`}},
		{name: "raft without disk", dialer: "c1", port: "c1", node: "b", kind: peer.Raft, code: peer.RefusedWrongDisk, reasonHas: []string{`""`, `"d2"`}},
		{name: "heartbeat disk", dialer: "c1", port: "c1", node: "b", disk: "old", kind: peer.Heartbeat, code: peer.RefusedWrongDisk, reasonHas: []string{`"old"`, `"d2"`}},
		{name: "dialer without cluster", dialer: "", port: "c1", node: "b", kind: peer.Heartbeat, code: peer.RefusedClusterMismatch, reasonHas: []string{"no cluster", `"c1"`}},
		{name: "port without cluster", dialer: "c1", port: "", node: "b", kind: peer.Forward, code: peer.RefusedClusterMismatch, reasonHas: []string{`"c1"`, "none"}},
		{name: "heartbeat does not adopt", dialer: "c1", port: "", node: "b", disk: "d2", kind: peer.Heartbeat, code: peer.RefusedClusterMismatch, reasonHas: []string{`"c1"`}},
		{name: "both without cluster", dialer: "", port: "", node: "b", kind: peer.Forward, code: peer.RefusedClusterMismatch, reasonHas: []string{"no cluster"}},
		{name: "unknown kind", dialer: "c1", port: "c1", node: "b", kind: 9, code: peer.RefusedUnsupportedKind, reasonHas: []string{"Kind(9)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := &book{}
			echoes(t, b, peer.Options{Node: "b", Disk: "d2", Cluster: in(tc.port), AdoptCluster: func(c string) error {
				t.Errorf("adopted %q", c)
				return nil
			}})
			b.set("x", b.addrs["b"])
			a := peer.New(peer.Options{Node: "a", Disk: "d1", Cluster: in(tc.dialer), Lookup: b.lookup})
			_, err := a.DialServer(t.Context(), tc.node, tc.disk, tc.kind)
			var re *peer.RefusedError
			if !errors.As(err, &re) {
				t.Fatalf("dial = %v, want a RefusedError", err)
			}
			if re.Code != tc.code || re.Node != tc.node {
				t.Errorf("refused %q for %v, want %q for %v", re.Node, re.Code, tc.node, tc.code)
			}
			for _, want := range tc.reasonHas {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not name %s", err, want)
				}
			}
		})
	}
}

func TestKindWithoutHandlerIsRefused(t *testing.T) {
	b := &book{}
	p := peer.New(peer.Options{Node: "b", Cluster: in("c1"), Lookup: b.lookup})
	p.Handle(peer.Control, echo)
	serve(t, b, "b", p)
	_, err := p.Dial(t.Context(), "b", peer.Forward)
	var re *peer.RefusedError
	if !errors.As(err, &re) || re.Code != peer.RefusedUnsupportedKind {
		t.Fatalf("dial = %v, want it refused for its kind", err)
	}
}

func TestControlIsOpenWithoutACluster(t *testing.T) {
	for _, tc := range []struct{ dialer, port string }{{"", ""}, {"c1", ""}, {"", "c1"}} {
		b := &book{}
		echoes(t, b, peer.Options{Node: "b", Cluster: in(tc.port)})
		a := peer.New(peer.Options{Node: "a", Cluster: in(tc.dialer), Lookup: b.lookup})
		c, err := a.Dial(t.Context(), "b", peer.Control)
		if err != nil {
			t.Fatalf("from cluster %q to %q: %v", tc.dialer, tc.port, err)
		}
		if got := c.Peer().Cluster; got != tc.port {
			t.Errorf("the port is of cluster %q, want %q", got, tc.port)
		}
		_ = c.Close()
	}
}

func TestRaftStreamTeachesTheCluster(t *testing.T) {
	b := &book{}
	var cluster atomic.Pointer[string]
	own := func() string {
		if c := cluster.Load(); c != nil {
			return *c
		}
		return ""
	}
	echoes(t, b, peer.Options{Node: "b", Disk: "d2", Cluster: own, AdoptCluster: func(c string) error {
		if own() != "" && own() != c {
			return errors.New("taken")
		}
		cluster.Store(&c)
		return nil
	}})
	leader := peer.New(peer.Options{Node: "a", Cluster: in("c1"), Lookup: b.lookup})
	if _, err := leader.DialServer(t.Context(), "b", "wiped", peer.Raft); err == nil || own() != "" {
		t.Fatalf("another disk's stream = %v and cluster %q, want it refused and none", err, own())
	}
	c, err := leader.DialServer(t.Context(), "b", "d2", peer.Raft)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if own() != "c1" || c.Peer().Cluster != "c1" {
		t.Fatalf("cluster = %q, answered %q, want c1", own(), c.Peer().Cluster)
	}
	other := peer.New(peer.Options{Node: "z", Cluster: in("c2"), Lookup: b.lookup})
	if _, err := other.DialServer(t.Context(), "b", "d2", peer.Raft); err == nil {
		t.Fatal("a second cluster got through")
	}
}

func TestAdoptMayRefuse(t *testing.T) {
	b := &book{}
	echoes(t, b, peer.Options{Node: "b", Disk: "d2", Cluster: in(""), AdoptCluster: func(string) error {
		return errors.New("disk full")
	}})
	leader := peer.New(peer.Options{Node: "a", Cluster: in("c1"), Lookup: b.lookup})
	_, err := leader.DialServer(t.Context(), "b", "d2", peer.Raft)
	if err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Fatalf("dial = %v, want the reason", err)
	}
}

func TestRaftDialNeedsACluster(t *testing.T) {
	p := peer.New(peer.Options{Node: "a", Lookup: func(string) (string, bool) {
		t.Error("looked up an address")
		return "", false
	}})
	if _, err := p.DialServer(t.Context(), "b", "d", peer.Raft); !errors.Is(err, peer.ErrNoCluster) {
		t.Fatalf("dial = %v, want ErrNoCluster", err)
	}
}

func TestNewBootShowsOnNewStreams(t *testing.T) {
	b := &book{}
	boots := make(chan uint64, 1) // one dial at a time
	p := peer.New(peer.Options{Node: "a", Boot: 1, Cluster: in("c1"), Lookup: b.lookup})
	p.Handle(peer.Heartbeat, func(_ context.Context, c *peer.Conn) {
		boots <- c.Boot()
		_ = c.Close()
	})
	serve(t, b, "a", p)
	for _, want := range []uint64{1, 9} {
		p.SetBoot(want)
		c, err := p.Dial(t.Context(), "a", peer.Heartbeat)
		if err != nil {
			t.Fatal(err)
		}
		if got := <-boots; got != want || c.Boot() != want {
			t.Errorf("boot = %d and %d, want %d on both sides", got, c.Boot(), want)
		}
		_ = c.Close()
	}
}

func TestTooLongIDFailsTheDial(t *testing.T) {
	p := peer.New(peer.Options{Node: "a", Cluster: in("c1"), Lookup: func(string) (string, bool) { return "127.0.0.1:1", true }})
	if _, err := p.Dial(t.Context(), strings.Repeat("x", 65), peer.Forward); err == nil || peer.IsRefused(err) {
		t.Fatalf("dial = %v, want the id refused here", err)
	}
}
