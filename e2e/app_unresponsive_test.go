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
	a := c.Node("a")
	w := diagnosisTest{t, c}
	hangs := func(s cluster.Status) bool {
		return slices.ContainsFunc(s.Findings, func(f diagnosis.Finding) bool { return f.Code == diagnosis.AppNotResponding })
	}

	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { w.get(a.Addr, "/poll", "App-Delay", "20s") })
		all.Go(func() { w.get(a.Addr, "/download", "App-Delay", "1s", "App-Chunks", "20", "App-Size", "100000") })
	}
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	for waits := true; waits; {
		if s, err := a.Status(t.Context()); err != nil || hangs(s) {
			t.Fatalf("long polls and slow downloads: %v %s", err, s.FindingsText())
		}
		select {
		case <-over:
			waits = false
		case <-time.After(200 * time.Millisecond):
		}
	}

	a.App.Signal(t, syscall.SIGSTOP)
	for range 2 {
		all.Go(func() { w.get(a.Addr, "/") })
	}
	w.wantFinding(a, diagnosis.AppNotResponding, "2 requests are waiting, and the app has not read 2 of them")
	a.App.Signal(t, syscall.SIGCONT)
	all.Wait()
	a.AwaitStatus(t, "the app responds", func(s cluster.Status) bool { return !hangs(s) })
}
