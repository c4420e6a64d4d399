//go:build linux

package cluster

import (
	"strings"
	"testing"
	"time"
)

// What a process says when it is told to end follows from its command line; the last
// word counts.
func TestGraceOfACommandLine(t *testing.T) {
	for line, want := range map[string]time.Duration{
		"shardway run --hold-grace 3s":                                   0,
		"shardway run --on-term hold":                                    8 * time.Second,
		"shardway run --on-term=hold --hold-grace=13s":                   13 * time.Second,
		"env A=b shardway run --on-term hold --hold-grace 4s --weight 1": 4 * time.Second,
		"shardway run --on-term hold --on-term hand-over":                0,
		"shardway run --on-term":                                         0,
	} {
		if got := grace(strings.Fields(line)); got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}
