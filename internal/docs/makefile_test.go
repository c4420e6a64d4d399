package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The Makefile divides the tests by name. A name that no test has would silently change what a
// target runs.
func TestTestNamesOfTheMakefileExist(t *testing.T) {
	src := sources(t)
	lists := testLists(t)
	if len(lists) != 5 {
		t.Errorf("the Makefile has %d lists of tests, want MUTANTS, LONG, REDUCED, SHORT_CLUSTERS and BUSY", len(lists))
	}
	for list, names := range lists {
		for _, name := range names {
			if !strings.Contains(src, "\nfunc "+name+"(t *testing.T) {") {
				t.Errorf("%s of the Makefile names %s, and there is no such test", list, name)
			}
		}
	}
}

// testLists returns the lists of tests in the Makefile, by their names.
func testLists(t *testing.T) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string][]string{}
	for _, list := range regexp.MustCompile(`(?m)^([A-Z_]+) := \^\((Test[\w|]+)\)\$\$$`).FindAllStringSubmatch(string(b), -1) {
		lists[list[1]] = strings.Split(list[2], "|")
	}
	return lists
}

// Without the race detector only the tests of REDUCED run in ./node. A test that the detector reduces
// would otherwise never run whole.
func TestReducedTestsRunWhole(t *testing.T) {
	reduced := testLists(t)["REDUCED"]
	for _, name := range callersOf(t, filepath.Join(root, "node"), "share", "Share", "Detector", "BuildTests", "TestMutants") {
		if strings.HasPrefix(name, "Test") && name != "TestMain" && !slices.Contains(reduced, name) {
			t.Errorf("%s is reduced with the race detector: add it to REDUCED of the Makefile", name)
		}
	}
}

// callersOf returns the functions in the tests of a directory that use one of the names, also through
// other functions there.
func callersOf(t *testing.T, dir string, names ...string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("tests of %s: %q, %v", dir, files, err)
	}
	used := map[string]map[string]bool{} // names by the function that uses them
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			if function, ok := decl.(*ast.FuncDecl); ok {
				used[function.Name.Name] = identifiers(function)
			}
		}
	}
	var callers []string
	for next := names; len(next) > 0; {
		name := next[0]
		next = next[1:]
		for function, uses := range used {
			if uses[name] {
				callers, next = append(callers, function), append(next, function)
				delete(used, function)
			}
		}
	}
	return callers
}

// identifiers returns all names in a function.
func identifiers(function *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(function.Body, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok {
			names[name.Name] = true
		}
		return true
	})
	return names
}
