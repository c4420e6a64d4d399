package gossip

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
)

// The linker matches methods by name only: a method with parameters or results would be called with arbitrary data.
func TestMethodsOfMemberlistTakeAndReturnNothing(t *testing.T) {
	path, _ := runtime.FuncForPC(reflect.ValueOf(probeOnce).Pointer()).FileLine(reflect.ValueOf(probeOnce).Pointer())
	if !filepath.IsAbs(path) {
		t.Skipf("built without paths: %s", path)
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{"deschedule": true, "gossip": true, "probe": true, "pushPull": true}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil || !left[f.Name.Name] {
			continue
		}
		if types.ExprString(f.Recv.List[0].Type) != "*Memberlist" {
			continue
		}
		if f.Type.Params.NumFields() > 0 || f.Type.Results.NumFields() > 0 {
			t.Errorf("%s: %s takes or returns something", path, f.Name.Name)
		}
		delete(left, f.Name.Name)
	}
	if len(left) > 0 {
		t.Errorf("%s has no methods of Memberlist called %v", path, left)
	}
}

func TestExchangesGetRarerWithTheNumberOfNodes(t *testing.T) {
	for nodes, want := range map[int]int{0: 1, 1: 1, 32: 1, 33: 2, 64: 2, 65: 3, 128: 3, 129: 4} {
		done := 0
		f := reduceRate(func() int { return nodes }, func() { done++ })
		for range 12 {
			f()
		}
		if done != 12/want {
			t.Errorf("%d exchanges in 12 times of %d nodes, want %d", done, nodes, 12/want)
		}
	}
}
