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
		"shardway run --hold-grace 3s":                                       0,
		"shardway run --on-shutdown hold":                                    8 * time.Second,
		"shardway run --on-shutdown=hold --hold-grace=13s":                   13 * time.Second,
		"env A=b shardway run --on-shutdown hold --hold-grace 4s --weight 1": 4 * time.Second,
		"shardway run --on-shutdown hold --on-shutdown handoff":              0,
		"shardway run --on-shutdown":                                         0,
	} {
		if got := grace(strings.Fields(line)); got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}
