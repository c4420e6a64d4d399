package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"shardway/diagnosis"
)

// Whoever reads a finding at night trusts that a cluster comes to it when that is so, and
// a table of inputs does not show that: a test brings nodes there, on real processes or in
// virtual time, and reads its sentence.
func TestEveryFindingIsProvoked(t *testing.T) {
	var tests strings.Builder
	for _, dir := range []string{"node", "e2e"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no tests in %s: %v", dir, err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			tests.Write(b)
		}
	}
	for _, c := range slices.Concat(diagnosis.Codes(), diagnosis.DoctorCodes()) {
		name := regexp.MustCompile("(^|-)[a-z]").ReplaceAllStringFunc(string(c), func(s string) string { return strings.ToUpper(strings.TrimPrefix(s, "-")) })
		read := regexp.MustCompile(`\b(untilFindingsAre|finds|Contains)\([^\n]*"` + string(c) + `: |\b(wantFinding|says|tells)\([^\n]*diagnosis\.` + name + `, `)
		if !read.MatchString(tests.String()) {
			t.Errorf("no test of node or e2e brings a cluster to %s and reads what it says", c)
		}
	}
}
