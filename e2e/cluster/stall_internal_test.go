//go:build linux

package cluster

import (
	"os"
	"testing"
)

// The kernel is asked for how long each thread had to wait, of a process that lives.
func TestThreadsTellForHowLongTheyWaited(t *testing.T) {
	threads := threadsOf(os.Getpid())
	if len(threads) == 0 {
		t.Fatal("this process has no threads")
	}
	told := 0
	for _, thread := range threads {
		if n, ok := waits(thread); ok && n >= 0 {
			told++
		}
	}
	if told == 0 {
		t.Errorf("none of %v tells", threads)
	}
	if gone := threadsOf(1 << 30); len(gone) > 0 {
		t.Errorf("a process that cannot be has threads: %v", gone)
	}
}
