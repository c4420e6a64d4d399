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

// resumeTest is a cluster of three apps and a gateway, with clients that have resumable
// WebSockets.
type resumeTest struct {
	*cluster.Cluster
	dir   string
	nodes []*cluster.Node // nodes with apps
	front []*cluster.Node // nodes with clients: one with an app, and the gateways
	apps  map[*cluster.Node]*exampleApp
	conns []resumeClient
}

// startResume starts the cluster with apps of the test program.
func startResume(t *testing.T) *resumeTest {
	t.Helper()
	return startResumeWith(t, resumeOptions{apps: [][]string{os.Args[:1], os.Args[:1], os.Args[:1]}})
}

// resumeOptions are the parameters of startResumeWith.
type resumeOptions struct {
	apps     [][]string    // commands of the apps, each behind a node
	gateways int           // 0 means 1
	shards   int           // 0 means 16
	every    time.Duration // between numbers of the apps; 0 means wsresume.SendInterval
}

func startResumeWith(t *testing.T, o resumeOptions) *resumeTest {
	t.Helper()
	dir, err := cluster.Scratch()
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ports, err := cluster.NewPorts()
	must(t, err)
	t.Cleanup(ports.Close)
	gateways := cmp.Or(o.gateways, 1)
	flags := []string{"--bootstrap-expect", strconv.Itoa(len(o.apps) + gateways), "--key", "query:key", "--lease", "1500ms", "--dead-after", "6s", "--max-streams", "16384"}
	x := &resumeTest{
		Cluster: cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: cmp.Or(o.shards, 16), Secret: hasSecret(t), Flags: flags}),
		dir:     dir, apps: map[*cluster.Node]*exampleApp{},
	}
	for _, command := range o.apps {
		port, err := ports.Free()
		must(t, err)
		a := &exampleApp{
			command: command, addr: fmt.Sprint("127.0.0.1:", port),
			env: append(wsresume.Environment(dir, cmp.Or(o.every, wsresume.SendInterval)), fmt.Sprint("PORT=", port)),
		}
		a.start(t)
		node := x.Prepare(t, "--upstream", "http://"+a.addr)
		x.apps[node], x.nodes = a, append(x.nodes, node)
	}
	x.front = []*cluster.Node{x.nodes[0]}
	for range gateways {
		x.front = append(x.front, x.Prepare(t, "--upstream="))
	}
	x.AddJoinFlags()
	for _, node := range x.Nodes() {
		node.Start(t)
	}
	return x
}

// open opens a client for each shard at each of the front nodes.
func (x *resumeTest) open(t *testing.T) {
	t.Helper()
	shardMap := x.AwaitServedBy(t, x.nodes...)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var mine []resumeClient
	t.Cleanup(func() {
		cancel()
		for _, c := range mine {
			c.wait()
		}
	})
	for i, at := range x.front {
		for _, node := range x.nodes {
			for j, key := range shardMap.Keys(node.ID, 1) {
				c, err := dialCoder(ctx, at.Addr, key, fmt.Sprintf("%d%s%d", i, node.ID, j), wsresume.SendInterval)
				must(t, err)
				mine = append(mine, c)
			}
		}
	}
	x.conns = append(x.conns, mine...)
}

// awaitProgress waits until each connection has carried new messages in both directions.
func (x *resumeTest) awaitProgress(t *testing.T) {
	t.Helper()
	from := make([]wsresume.AppMessage, len(x.conns))
	for i, c := range x.conns {
		from[i], _ = c.newest()
	}
	cluster.Await(t, "all connections continue", func() error {
		for i, c := range x.conns {
			n, err := c.newest()
			if err != nil {
				conns, _ := wsresume.Read(x.dir)
				t.Fatalf("%v; at most %d unplanned connections of a session within a minute", err, wsresume.MaxUnplanned(conns))
			}
			if n.Number < from[i].Number+5 || n.LastReceived < from[i].LastReceived+5 {
				return fmt.Errorf("socket %d is at %+v, it was at %+v", i, n, from[i])
			}
		}
		return nil
	})
}

// gaps returns the number of upstream connections that were informed of a gap, and of later
// ones that were not.
func (x *resumeTest) gaps(t *testing.T) (gaps, planned int) {
	t.Helper()
	conns, err := wsresume.Read(x.dir)
	must(t, err)
	for _, l := range conns {
		switch {
		case l.Gap:
			gaps++
		case l.Index > 0:
			planned++
		}
	}
	return gaps, planned
}

// TestResumableWebSocketsStayOpen has clients that count at a node and at a gateway, in
// both directions. Meanwhile a node with an app is drained, the others restart, an app
// dies and restarts, and a node dies with its app. No connection is closed, planned moves
// lose nothing, nothing is repeated, and the app is informed of every gap.
func TestResumableWebSocketsStayOpen(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	x := startResume(t)
	x.open(t)
	x.awaitProgress(t)
	startedAt := history.Now()
	first := x.nodes[0]
	for _, args := range [][]string{{"drain", first.ID, "--wait"}, {"uncordon", first.ID}} {
		if out, code := shardway(t, append(args, "--admin", first.Admin)...); code != 0 {
			t.Fatalf("%q: exit %d, %s", args, code, out)
		}
		x.awaitProgress(t)
	}
	x.AwaitServedBy(t, x.nodes...)
	for _, node := range x.nodes[1:] {
		node.Stop(t)
		x.awaitProgress(t)
		node.Start(t)
		x.AwaitServedBy(t, x.nodes...)
		x.awaitProgress(t)
	}
	gaps, planned := x.wantPlanned(t, startedAt)
	x.die(t, first)
	x.awaitProgress(t) // an app that restarts before its node notices has ended the connections itself
	x.apps[first].start(t)
	x.AwaitServedBy(t, x.nodes...)
	x.awaitProgress(t)
	last := x.nodes[2]
	last.Kill(t)
	x.die(t, last)
	x.awaitProgress(t)
	if died, _ := x.gaps(t); died == gaps {
		t.Error("no node reported a gap to an app")
	}
	conns := x.check(t)
	t.Logf("%d sessions, %d handovers, %d upstream connections in total", len(x.conns), planned, len(conns))
}

// wantPlanned checks that only planned moves have happened since then, if the machine had
// CPU time for the nodes.
func (x *resumeTest) wantPlanned(t *testing.T, startedAt int64) (gaps, planned int) {
	t.Helper()
	gaps, planned = x.gaps(t)
	if starved := x.StarvedTime(startedAt); gaps > 0 && starved < time.Second {
		t.Errorf("%d of %d upstream connections begin with a gap in planned moves", gaps, gaps+planned)
	}
	if planned < len(x.conns) {
		t.Errorf("%d hand-offs of %d sockets", planned, len(x.conns))
	}
	return gaps, planned
}

// check makes the clients ask for their end, and checks the records of clients and apps.
func (x *resumeTest) check(t *testing.T) []*wsresume.Conn {
	t.Helper()
	var saw []wsresume.Client
	for _, c := range x.conns {
		c.stop()
	}
	for _, c := range x.conns {
		saw = append(saw, c.wait())
	}
	conns, err := wsresume.Read(x.dir)
	must(t, err)
	for _, wrong := range wsresume.Check(saw, conns) {
		t.Error(wrong)
	}
	return conns
}

// die kills the app of a node.
func (x *resumeTest) die(t *testing.T, node *cluster.Node) {
	t.Helper()
	cmd := x.apps[node].process
	must(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait() // it was killed
}
