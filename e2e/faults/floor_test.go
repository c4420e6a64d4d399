//go:build linux

package faults_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"shardway/e2e/faults"
	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
)

// floor contains the durations of basic operations of the machine, in the same run.
type floor struct {
	// fsync is a small write to the disk of the nodes, redial a refused connection, and
	// request a request through a node to its app without a fault.
	fsync, redial, request faults.Sample
}

// String returns median, p90 and maximum of each, in milliseconds.
func (f floor) String() string {
	return fmt.Sprintf("fsync %v, refused redial %v, request %v", f.fsync, f.redial, f.request)
}

func measureFloor(tb testing.TB, c *cluster.Cluster) floor {
	tb.Helper()
	const times = 50
	f, err := os.Create(filepath.Join(c.Dir(), "fsync"))
	must(tb, err)
	defer func() { _ = f.Close() }()
	node := c.Running()[0]
	key := c.AwaitServing(tb).Keys(node.ID, 1)[0]
	client := load.NewClient(nil, nil)
	defer client.Close()
	var out floor
	for i := range times {
		out.fsync.Add(timed(func() {
			_, err := f.WriteString("a record of the log")
			must(tb, err)
			must(tb, f.Sync())
		}))
		out.redial.Add(timed(func() {
			if conn, err := net.Dial("tcp", "127.0.0.1:1"); err == nil {
				_ = conn.Close()
			}
		}))
		resp := client.DoAt(tb.Context(), node.Addr, load.Request{ID: fmt.Sprint("floor", i), Key: key})
		out.request.Add(time.Duration(resp.DoneAt() - resp.SentAt()))
	}
	return out
}

func timed(f func()) time.Duration {
	startedAt := time.Now()
	f()
	return time.Since(startedAt)
}
