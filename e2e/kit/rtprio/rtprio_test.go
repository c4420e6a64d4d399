//go:build linux

package rtprio_test

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"shardway/e2e/kit/rtprio"
)

// Number 41 of stat is the scheduling policy; 2 is SCHED_RR.
func TestChildrenHaveRealTimePriority(t *testing.T) {
	type result struct {
		stat string
		err  error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread()
		if err := rtprio.Thread(); err != nil {
			done <- result{err: err}
			return
		}
		out, err := exec.CommandContext(t.Context(), "cat", "/proc/self/stat").Output()
		done <- result{string(out), err}
	}()
	r := <-done
	if r.err != nil {
		t.Skip(r.err)
	}
	if f := strings.Fields(r.stat); len(f) < 41 || f[40] != "2" {
		t.Errorf("not SCHED_RR: %s", r.stat)
	}
}
