package docs_test

import (
	"cmp"
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const packagesPage = "docs/internals/packages.md"

const packagesHead = `# Packages

This page lists all packages with the first sentence of their documentation. It is generated: ` + "`go test ./internal/docs -run Packages -update`" + `.
[Architecture](architecture.md) describes how they work together, and [Where](where.md) leads from a question to a function.
`

// TestPackagesPageIsComplete checks that packages.md has the first sentence of the documentation of each
// package.
func TestPackagesPageIsComplete(t *testing.T) {
	want := packagesHead + packageTables(t)
	if *update {
		if err := os.WriteFile(filepath.Join(root, packagesPage), []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if pages(t)[packagesPage] != want {
		t.Errorf("%s does not match the documentation of the packages: go test ./internal/docs -run Packages -update", packagesPage)
	}
}

// packageTables returns a table of the packages for each directory at the top. The first one contains the
// packages without a directory of their own.
func packageTables(t *testing.T) string {
	t.Helper()
	rows := map[string][]string{}
	for dir, sentence := range synopses(t) {
		top, _, nested := strings.Cut(dir, "/")
		if !nested && !hasSubpackages(t, dir) {
			top = ""
		}
		rows[top] = append(rows[top], fmt.Sprintf("| `%s` | %s |\n", dir, strings.ReplaceAll(sentence, "|", "\\|")))
	}
	if len(rows) < 5 {
		t.Fatalf("only %d groups of packages found", len(rows))
	}
	var out strings.Builder
	for _, top := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&out, "\n## %s\n\n| package | contents |\n|---|---|\n", cmp.Or(top, "Single packages"))
		slices.SortFunc(rows[top], func(a, b string) int {
			return cmp.Compare(strings.ReplaceAll(a, "`", " "), strings.ReplaceAll(b, "`", " ")) // a space sorts before the slash of a sub-package
		})
		out.WriteString(strings.Join(rows[top], ""))
	}
	return out.String()
}

// hasSubpackages reports whether the directory contains other directories with Go files.
func hasSubpackages(t *testing.T, dir string) bool {
	t.Helper()
	for _, depth := range []string{"*", "*/*"} {
		files, err := filepath.Glob(filepath.Join(root, dir, depth, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) > 0 {
			return true
		}
	}
	return false
}

// synopses returns the first sentence of the documentation of each package, by its directory.
func synopses(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, f := range goFiles(t) {
		dir := path.Dir(f)
		if dir == "." || out[dir] != "" || strings.Contains(f, "testdata/") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, f), nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			continue // deleted, and not committed yet
		}
		text := new(doc.Package).Synopsis(parsed.Doc.Text())
		_, sentence, found := strings.Cut(text, "Package "+parsed.Name.Name+" ")
		if found && sentence != "" {
			out[dir] = sentence
		}
	}
	return out
}
