//go:build linux || darwin

package cli_test

import (
	"strings"
	"syscall"
	"testing"
)

// The check compares the descriptor limit of the process with the number that the connection limits
// need. A lower limit causes a warning only, because the node starts nevertheless.
func TestCheckComparesDescriptorsWithTheLimit(t *testing.T) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if l.Cur < 2000 || l.Cur > 5_000_000 {
		t.Skipf("a limit of %d files", l.Cur)
	}
	for line, want := range map[string]string{
		"check --max-conns 100":      "1480 ≤ ",
		"check --max-conns 10000000": "no (advice)",
	} {
		code, out, _ := run(t, line)
		at := strings.Index(out, "descriptors ≤ file limit")
		if code != 0 || at < 0 {
			t.Fatalf("%s: exit %d\n%s", line, code, out)
		}
		row, _, _ := strings.Cut(out[at:], "\n")
		if !strings.Contains(row, want) || strings.Contains(row, "no (advice)") != (want == "no (advice)") {
			t.Errorf("%s: %q, want %q", line, row, want)
		}
	}
}
