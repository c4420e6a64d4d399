package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestIndexNamesFunctionsThatExist checks each `file.go:Function` and `file.go:Type.Method` in
// where.md and request.md. After a rename or a move, change the pages.
func TestIndexNamesFunctionsThatExist(t *testing.T) {
	declared := map[string]map[string]string{} // by directory: function, and its file
	all, seen := pages(t), 0
	for _, page := range []string{"docs/internals/where.md", "docs/internals/request.md"} {
		for _, m := range regexp.MustCompile("`([\\w/]+)/(\\w+\\.go):([\\w.]+)`").FindAllStringSubmatch(all[page], -1) {
			dir, file, name := m[1], m[2], m[3]
			seen++
			if declared[dir] == nil {
				declared[dir] = functions(t, dir)
			}
			switch at := declared[dir][name]; at {
			case file:
			case "":
				t.Errorf("%s: package %s has no function %s", page, dir, name)
			default:
				t.Errorf("%s: %s is in %s/%s, not in %s", page, name, dir, at, file)
			}
		}
	}
	if seen < 80 {
		t.Errorf("only %d functions were looked up", seen)
	}
}

// functions returns the functions and methods of a package, without tests, with their files.
func functions(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				found[receiver(fn)+fn.Name.Name] = filepath.Base(f)
			}
		}
	}
	return found
}

// receiver returns the type of a method with a dot, or "" for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if index, ok := of.(*ast.IndexExpr); ok {
		of = index.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}
