package raceflag_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"shardway/internal/raceflag"
)

// All tests of the VIRTUAL packages run in synctest bubbles, so each of these packages must
// call OneProcessor.
func TestPackagesInVirtualTimeUseOneProcessor(t *testing.T) {
	const root = "../.."
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	virtual := regexp.MustCompile(`(?m)^VIRTUAL := (.+)$`).FindSubmatch(makefile)
	if virtual == nil {
		t.Fatal("the Makefile names no VIRTUAL packages")
	}
	for pkg := range strings.FieldsSeq(string(virtual[1])) {
		if !calls(t, filepath.Join(root, pkg)) {
			t.Errorf("%s: no test calls raceflag.OneProcessor", pkg)
		}
	}
}

func TestOneProcessorLimitsProcessorsUnderDetector(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	want := before
	if raceflag.Detector {
		want = 1
	}
	restore := raceflag.OneProcessor()
	if n := runtime.GOMAXPROCS(0); n != want {
		t.Errorf("%d processors, want %d", n, want)
	}
	restore()
	if n := runtime.GOMAXPROCS(0); n != before {
		t.Errorf("%d processors after restore, want %d", n, before)
	}
}

// calls reports whether a test in dir calls OneProcessor.
func calls(t *testing.T, dir string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("raceflag.OneProcessor()")) {
			return true
		}
	}
	return false
}
