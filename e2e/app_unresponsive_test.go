//go:build linux

package e2e_test

import (
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"shardway/diagnosis"
	"shardway/e2e/kit/cluster"
)

// TestHangingAppIsReportedWithoutHealthCheck pauses (SIGSTOP) an app whose node checks
// only whether its port accepts connections. The kernel still accepts them, so once
// nothing reported the app. Before the pause, the app gets only long polls and slow
// downloads, which must not be reported.
func TestHangingAppIsReportedWithoutHealthCheck(t *testing.T) {
	t.Parallel()
	c := start(t, 1)
	node := c.Node("a")
	w := diagnosisTest{t, c}
	hangs := func(status cluster.Status) bool {
		return slices.ContainsFunc(status.Findings, func(finding diagnosis.Finding) bool { return finding.Code == diagnosis.AppNotResponding })
	}

	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { w.get(node.Addr, "/poll", "App-Delay", "20s") })
		all.Go(func() { w.get(node.Addr, "/download", "App-Delay", "1s", "App-Chunks", "20", "App-Size", "100000") })
	}
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	for waits := true; waits; {
		if status, err := node.Status(t.Context()); err != nil || hangs(status) {
			t.Fatalf("long polls and slow downloads: %v %s", err, status.FindingsText())
		}
		select {
		case <-over:
			waits = false
		case <-time.After(200 * time.Millisecond):
		}
	}

	node.App.Signal(t, syscall.SIGSTOP)
	for range 2 {
		all.Go(func() { w.get(node.Addr, "/") })
	}
	w.wantFinding(node, diagnosis.AppNotResponding, "2 requests are waiting, and the app has not read 2 of them")
	node.App.Signal(t, syscall.SIGCONT)
	all.Wait()
	node.AwaitStatus(t, "the app responds", func(status cluster.Status) bool { return !hangs(status) })
}
