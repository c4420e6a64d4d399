package embed_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"shardway/internal/freeport"
)

// A program of another module can be built with the package, and runs.
func TestProgramOfAnotherModule(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err = os.CopyFS(dir, os.DirFS("testdata/outside")); err != nil {
		t.Fatal(err)
	}
	mod := filepath.Join(dir, "go.mod")
	b, err := os.ReadFile(mod)
	if err != nil {
		t.Fatal(err)
	}
	moved := strings.Replace(string(b), "=> ../../..", "=> "+root, 1)
	if err = os.WriteFile(mod, []byte(moved), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "outside")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = dir
	// The program needs only libraries that this module needs, too, so no download is necessary.
	build.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
	if msg, failed := build.CombinedOutput(); failed != nil {
		t.Fatalf("go build: %v\n%s", failed, msg)
	}
	p := freeport.Addrs(t, 4)
	out, err := exec.CommandContext(t.Context(), program, "-listen", p[0], "-admin", p[1], "-peer", p[2], "-gossip", p[3], "-data", t.TempDir()).CombinedOutput()
	if want := "alice 1\nalice 2\ntrue true 1024\n1024 0\n"; err != nil || string(out) != want {
		t.Errorf("output %q, %v, want %q", out, err, want)
	}
}

// The exported API uses only types of this package, of the standard library and of fasthttp. A program
// outside of this module cannot import internal packages, and must not depend on any other package.
func TestExportedAPIUsesNoOtherPackage(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours := map[string]bool{}
		for _, i := range f.Imports {
			if path, err := strconv.Unquote(i.Path.Value); err == nil && strings.HasPrefix(path, "shardway/") {
				ours[filepath.Base(path)] = true
			}
		}
		for _, declared := range exported(f) {
			seen++
			ast.Inspect(declared, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if pkg, ok := s.X.(*ast.Ident); ok && ours[pkg.Name] {
						t.Errorf("%s exports %s.%s", name, pkg.Name, s.Sel.Name)
					}
				}
				return true
			})
		}
	}
	if seen < 20 {
		t.Errorf("only %d exported declarations were found", seen)
	}
}

// exported returns the types that a file shows: of functions, and of the fields and
// values that others can name.
func exported(f *ast.File) (shown []ast.Node) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() {
				shown = append(shown, d.Type)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if t, ok := s.(*ast.TypeSpec); ok && t.Name.IsExported() {
					shown = append(shown, fields(t.Type)...)
				}
			}
		}
	}
	return shown
}

func fields(t ast.Expr) (shown []ast.Node) {
	s, ok := t.(*ast.StructType)
	if !ok {
		return []ast.Node{t}
	}
	for _, f := range s.Fields.List {
		for _, name := range f.Names {
			if name.IsExported() {
				shown = append(shown, f.Type)
			}
		}
		if f.Names == nil {
			shown = append(shown, f.Type)
		}
	}
	return shown
}
