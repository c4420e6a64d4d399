//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
	"shardway/e2e/kit/wsresume"
)

// TestRollingRestartsKeepManyWebSockets has clients at two gateways while all nodes with
// apps restart, one after the other, several times. No connection is closed, and nothing
// is lost or repeated. Then nodes and apps are killed as well: still no connection is
// closed, nothing is repeated, and the app is informed of every gap.
func TestRollingRestartsKeepManyWebSockets(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	for _, tt := range []struct {
		name  string
		kills bool
	}{{"planned", false}, {"with kills", true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rollingRestarts(t, tt.kills)
		})
	}
}

func rollingRestarts(t *testing.T, kills bool) {
	t.Helper()
	many, rolls := sizeOf(t, socketsVariable, 40), sizeOf(t, rollsVariable, 1)
	every := max(20*time.Millisecond, time.Duration(many)*time.Second/2000) // 2 000 numbers per second in each direction
	x := startResumeWith(t, resumeOptions{apps: [][]string{os.Args[:1], os.Args[:1], os.Args[:1]}, gateways: 2, shards: 128, every: every})
	x.AwaitServedBy(t, x.nodes...)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	keys := load.Keys(many)
	for i, key := range keys {
		c, err := dialCoder(ctx, x.front[1+i%2].Addr, key, fmt.Sprint("c", i), every)
		must(t, err)
		x.conns = append(x.conns, c)
	}
	x.awaitProgress(t)
	background := startKeyRequests(t, x.front[1].Addr, keys)
	startedAt, start := history.Now(), time.Now()
	var d deaths
	for roll := range rolls {
		for i, node := range x.nodes {
			if kills && roll%len(x.nodes) == i && d.may() {
				x.kill(t, node, d.next())
			} else {
				node.Stop(t)
				x.awaitProgress(t)
				node.Start(t)
			}
			x.AwaitServedBy(t, x.nodes...)
		}
	}
	x.awaitProgress(t)
	elapsed := time.Since(start)
	gaps, planned := x.gaps(t)
	if kills {
		if gaps == 0 {
			t.Error("no node reported a gap to an app")
		}
	} else {
		gaps, planned = x.wantPlanned(t, startedAt)
	}
	answers := background.end(t)
	conns := x.check(t)
	got := 0
	for _, l := range conns {
		got += len(l.Received)
	}
	t.Logf("%d sockets, %d rolling restarts of %d nodes in %v, %d kills: %d hand-offs, %d gaps, at most %d of a socket within a minute, %d messages up; %s",
		many, rolls, len(x.nodes), elapsed.Round(time.Second), d.n, planned, gaps, wsresume.MaxUnplanned(conns), got, answers)
}

// deaths counts the kills so far. A session tolerates three unplanned resumptions per
// minute.
type deaths struct {
	n    int
	last [3]time.Time
}

func (d *deaths) may() bool { return time.Since(d.last[0]) > time.Minute }

// next counts one more, and returns its number.
func (d *deaths) next() int {
	copy(d.last[:], d.last[1:])
	d.last[len(d.last)-1] = time.Now()
	d.n++
	return d.n - 1
}

// kill kills a node with its app, only the app, or only the node, in turn, and restarts
// it after all sessions have resumed elsewhere.
func (x *resumeTest) kill(t *testing.T, n *cluster.Node, turn int) {
	t.Helper()
	node, app := turn%3 != 1, turn%3 != 2
	if node {
		n.Kill(t)
	}
	if app {
		x.die(t, n)
	}
	x.awaitProgress(t)
	if app {
		x.apps[n].start(t)
	}
	if node {
		n.Start(t)
	}
}
