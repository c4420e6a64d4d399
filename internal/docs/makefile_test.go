package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The Makefile divides the tests by name. A name that no test has would silently change what a
// target runs.
func TestTestNamesOfTheMakefileExist(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	src := sources(t)
	lists := regexp.MustCompile(`(?m)^([A-Z_]+) := \^\((Test[\w|]+)\)\$\$$`).FindAllStringSubmatch(string(b), -1)
	if len(lists) != 3 {
		t.Errorf("the Makefile has %d lists of tests, want LONG, SHORT_CLUSTERS and BUSY", len(lists))
	}
	for _, l := range lists {
		for name := range strings.SplitSeq(l[2], "|") {
			if !strings.Contains(src, "\nfunc "+name+"(t *testing.T) {") {
				t.Errorf("%s of the Makefile names %s, and there is no such test", l[1], name)
			}
		}
	}
}
