//go:build linux

package cluster

import (
	"strings"
	"testing"
	"time"
)

// The command line determines the restart time that a process announces. The last value
// of a flag counts.
func TestHoldGraceIsReadFromTheCommandLine(t *testing.T) {
	for line, want := range map[string]time.Duration{
		"shardway run --hold-grace 3s":                                       0,
		"shardway run --on-shutdown hold":                                    8 * time.Second,
		"shardway run --on-shutdown=hold --hold-grace=13s":                   13 * time.Second,
		"env A=b shardway run --on-shutdown hold --hold-grace 4s --weight 1": 4 * time.Second,
		"shardway run --on-shutdown hold --on-shutdown handoff":              0,
		"shardway run --on-shutdown":                                         0,
	} {
		if got := holdGrace(strings.Fields(line)); got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}
