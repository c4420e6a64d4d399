package racing_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tests of packages with their own time are bubbles from end to end.
func TestWhatHasItsOwnTimeHasOneProcessor(t *testing.T) {
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
		main, err := os.ReadFile(filepath.Join(root, pkg, "main_test.go"))
		if err != nil || !bytes.Contains(main, []byte("racing.OneProcessor()")) {
			t.Errorf("%s: TestMain in main_test.go does not call racing.OneProcessor (%v)", pkg, err)
		}
	}
}
