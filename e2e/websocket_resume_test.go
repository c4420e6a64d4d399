//go:build linux

package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/wsresume"
)

// keptSockets is a cluster of three apps and a gateway, with clients whose WebSockets are kept.
type keptSockets struct {
	*cluster.Cluster
	dir   string
	nodes []*cluster.Node // with apps
	front []*cluster.Node // with clients: one of those, and the gateways
	apps  map[*cluster.Node]*exampleApp
	conns []keptEnd
}

// startKept starts the cluster, in front of apps of the test's own.
func startKept(t *testing.T) *keptSockets {
	t.Helper()
	return startKeptBy(t, keptOptions{apps: [][]string{os.Args[:1], os.Args[:1], os.Args[:1]}})
}

// keptOptions say what to start.
type keptOptions struct {
	apps     [][]string    // their commands, each behind a node
	gateways int           // 0 is 1
	shards   int           // 0 is 16
	every    time.Duration // between numbers of the apps; 0 is kept.Every
}

func startKeptBy(t *testing.T, o keptOptions) *keptSockets {
	t.Helper()
	dir, err := cluster.Scratch()
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ports, err := cluster.NewPorts()
	must(t, err)
	t.Cleanup(ports.Close)
	gateways := cmp.Or(o.gateways, 1)
	flags := []string{"--bootstrap-expect", strconv.Itoa(len(o.apps) + gateways), "--key", "query:key", "--lease", "1500ms", "--dead-after", "6s", "--max-streams", "16384"}
	x := &keptSockets{
		Cluster: cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: cmp.Or(o.shards, 16), Secret: third(t), Flags: flags}),
		dir:     dir, apps: map[*cluster.Node]*exampleApp{},
	}
	for _, command := range o.apps {
		port, err := ports.Free()
		must(t, err)
		a := &exampleApp{
			command: command, addr: fmt.Sprint("127.0.0.1:", port),
			env: append(wsresume.Environment(dir, cmp.Or(o.every, wsresume.Every)), fmt.Sprint("PORT=", port)),
		}
		a.start(t)
		n := x.Prepare(t, "--upstream", "http://"+a.addr)
		x.apps[n], x.nodes = a, append(x.nodes, n)
	}
	x.front = []*cluster.Node{x.nodes[0]}
	for range gateways {
		x.front = append(x.front, x.Prepare(t, "--upstream="))
	}
	x.AddJoinFlags()
	for _, n := range x.Nodes() {
		n.Start(t)
	}
	return x
}

// open has a client for each shard at either node.
func (x *keptSockets) open(t *testing.T) {
	t.Helper()
	m := x.AwaitServedBy(t, x.nodes...)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var mine []keptEnd
	t.Cleanup(func() {
		cancel()
		for _, c := range mine {
			c.wait()
		}
	})
	for i, at := range x.front {
		for _, n := range x.nodes {
			for j, key := range m.Keys(n.ID, 1) {
				c, err := dialKept(ctx, at.Addr, key, fmt.Sprintf("%d%s%d", i, n.ID, j), wsresume.Every)
				must(t, err)
				mine = append(mine, c)
			}
		}
	}
	x.conns = append(x.conns, mine...)
}

// goOn waits until messages go both ways on each socket that were sent from now on.
func (x *keptSockets) goOn(t *testing.T) {
	t.Helper()
	from := make([]wsresume.Number, len(x.conns))
	for i, c := range x.conns {
		from[i], _ = c.newest()
	}
	cluster.Await(t, "all sockets go on", func() error {
		for i, c := range x.conns {
			n, err := c.newest()
			if err != nil {
				legs, _ := wsresume.Read(x.dir)
				t.Fatalf("%v; at most %d unplanned legs of a socket within a minute", err, wsresume.Unplanned(legs))
			}
			if n.N < from[i].N+5 || n.Ack < from[i].Ack+5 {
				return fmt.Errorf("socket %d is at %+v, it was at %+v", i, n, from[i])
			}
		}
		return nil
	})
}

// gaps counts the legs that were told of a gap, and the later ones that were not.
func (x *keptSockets) gaps(t *testing.T) (gaps, planned int) {
	t.Helper()
	legs, err := wsresume.Read(x.dir)
	must(t, err)
	for _, l := range legs {
		switch {
		case l.Gap:
			gaps++
		case l.N > 0:
			planned++
		}
	}
	return gaps, planned
}

// TestResumableWebSocketsStayOpen has clients count along at a node and at a gateway, in both
// directions, while a node with an app is drained, the others restart, an app dies and comes
// back, and a node dies with its app: no socket is closed, planned moves lose nothing,
// nothing comes twice, and the app is told of every gap.
func TestResumableWebSocketsStayOpen(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	x := startKept(t)
	x.open(t)
	x.goOn(t)
	began := history.Now()
	first := x.nodes[0]
	for _, args := range [][]string{{"drain", first.ID, "--wait"}, {"uncordon", first.ID}} {
		if out, code := shardway(t, append(args, "--admin", first.Admin)...); code != 0 {
			t.Fatalf("%q: exit %d, %s", args, code, out)
		}
		x.goOn(t)
	}
	x.AwaitServedBy(t, x.nodes...)
	for _, n := range x.nodes[1:] {
		n.Stop(t)
		x.goOn(t)
		n.Start(t)
		x.AwaitServedBy(t, x.nodes...)
		x.goOn(t)
	}
	gaps, planned := x.wantPlanned(t, began)
	x.die(t, first)
	x.goOn(t) // an app that is there again when its node looks has ended them by itself
	x.apps[first].start(t)
	x.AwaitServedBy(t, x.nodes...)
	x.goOn(t)
	last := x.nodes[2]
	last.Kill(t)
	x.die(t, last)
	x.goOn(t)
	if died, _ := x.gaps(t); died == gaps {
		t.Error("no app is told of a gap")
	}
	legs := x.judge(t)
	t.Logf("%d sockets, %d hand-offs, %d legs in all", len(x.conns), planned, len(legs))
}

// wantPlanned checks that nothing but planned moves has happened since then, on a machine
// that had a processor for the nodes.
func (x *keptSockets) wantPlanned(t *testing.T, began int64) (gaps, planned int) {
	t.Helper()
	gaps, planned = x.gaps(t)
	if starved := x.Starved(began); gaps > 0 && starved < time.Second {
		t.Errorf("%d legs of %d begin with a gap, in planned moves", gaps, gaps+planned)
	}
	if planned < len(x.conns) {
		t.Errorf("%d hand-offs of %d sockets", planned, len(x.conns))
	}
	return gaps, planned
}

// judge has the clients ask for their end, and judges what they and the apps saw.
func (x *keptSockets) judge(t *testing.T) []*wsresume.Conn {
	t.Helper()
	var saw []wsresume.Client
	for _, c := range x.conns {
		c.stop()
	}
	for _, c := range x.conns {
		saw = append(saw, c.wait())
	}
	legs, err := wsresume.Read(x.dir)
	must(t, err)
	for _, wrong := range wsresume.Check(saw, legs) {
		t.Error(wrong)
	}
	return legs
}

// die kills the app of a node.
func (x *keptSockets) die(t *testing.T, n *cluster.Node) {
	t.Helper()
	p := x.apps[n].process
	must(t, p.Process.Signal(syscall.SIGKILL))
	_ = p.Wait() // killed
}
