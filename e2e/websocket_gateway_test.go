//go:build linux

package e2e_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/wsresume"
)

// TestWebSocketsOfGatewaysThatStopAndLeave has clients at a node and at two gateways. One
// gateway is paused for three seconds, and once more while an app dies behind it. The
// connections of its clients stay open, and the apps are informed of each gap. Then it
// leaves: its clients are asked to reconnect, and other connections are not affected.
func TestWebSocketsOfGatewaysThatStopAndLeave(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	x := startResumeWith(t, resumeOptions{apps: [][]string{os.Args[:1], os.Args[:1]}, gateways: 2, shards: 6})
	x.open(t)
	each := len(x.conns) / len(x.front)
	gateway, behind := x.front[2], x.conns[2*each:]
	others := &resumeTest{Cluster: x.Cluster, dir: x.dir, conns: x.conns[:2*each]}
	x.awaitProgress(t)

	gateway.Pause(t)
	others.awaitNumbers(t, uint64(3*time.Second/wsresume.SendInterval))
	gateway.Continue(t)
	x.awaitProgress(t)

	before, _ := x.gaps(t)
	gateway.Pause(t)
	x.die(t, x.nodes[1])
	others.awaitProgress(t)
	gateway.Continue(t)
	x.awaitProgress(t)
	if gaps, _ := x.gaps(t); gaps == before {
		t.Error("no node reported a gap to an app, although an app died")
	}

	startedAt, conns := history.Now(), x.connCount(t, 2)
	gateway.Terminate(t)
	cluster.Await(t, "the clients of the gateway are asked to reconnect", func() error {
		for i, c := range behind {
			switch _, err := c.newest(); {
			case err == nil:
				return fmt.Errorf("client %d is not", i)
			case !strings.Contains(err.Error(), "StatusServiceRestart") || !strings.Contains(err.Error(), "the node is leaving"):
				t.Fatalf("client %d: %v", i, err)
			}
		}
		return nil
	})
	gateway.AwaitExit(t, 0)
	others.awaitProgress(t)
	if now := x.connCount(t, 2); now != conns && x.StarvedTime(startedAt) < time.Second {
		t.Errorf("sessions at other nodes had %d upstream connections, and %d before the gateway left", now, conns)
	}
	others.check(t)
	for _, c := range behind {
		c.stop()
	}
}

// awaitNumbers is awaitProgress until the apps have sent this number of messages on each connection.
func (x *resumeTest) awaitNumbers(t *testing.T, numbers uint64) {
	t.Helper()
	from := make([]uint64, len(x.conns))
	for i, c := range x.conns {
		n, _ := c.newest()
		from[i] = n.Number
	}
	cluster.Await(t, fmt.Sprintf("all connections carry %d more numbers", numbers), func() error {
		for i, c := range x.conns {
			n, err := c.newest()
			if err != nil {
				t.Fatal(err)
			}
			if n.Number < from[i]+numbers {
				return fmt.Errorf("socket %d is at %d, it was at %d", i, n.Number, from[i])
			}
		}
		return nil
	})
}

// connCount returns the number of upstream connections of clients at other nodes.
func (x *resumeTest) connCount(t *testing.T, besides int) (n int) {
	t.Helper()
	all, err := wsresume.Read(x.dir)
	must(t, err)
	for _, l := range all {
		if !strings.HasPrefix(l.Client, strconv.Itoa(besides)) {
			n++
		}
	}
	return n
}
