package admin_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// refs returns the schemas that an OpenAPI text references, in order. It omits Problem, which is not
// generated from a struct.
func refs(text string) []string {
	var names []string
	for _, m := range regexp.MustCompile(`#/components/schemas/(\w+)`).FindAllStringSubmatch(text, -1) {
		if m[1] != "Problem" {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// writer generates OpenAPI schemas from the types of the package: their fields and comments.
type writer struct {
	types map[string]*ast.StructType
	docs  map[string]string
	out   map[string]string
}

// schemas returns the schemas of the named types and of the types of their fields.
func schemas(names []string) (string, error) {
	files, err := filepath.Glob("api/*.go")
	if err != nil {
		return "", err
	}
	w := &writer{types: map[string]*ast.StructType{}, docs: map[string]string{}, out: map[string]string{}}
	for _, f := range append(files, "../diagnosis/finding.go", "../diagnosis/doctor.go", "../event/event.go") {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ParseComments)
		if err != nil {
			return "", err
		}
		if err := w.read(parsed); err != nil {
			return "", err
		}
	}
	for _, name := range names {
		if err := w.schema(name); err != nil {
			return "", err
		}
	}
	var all strings.Builder
	for _, name := range sortedKeys(w.out) {
		all.WriteString(w.out[name])
	}
	return all.String(), nil
}

func sortedKeys(m map[string]string) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// read adds the struct types of a file. Schemas have no packages, so it returns an error for a type of the same name.
func (w *writer) read(f *ast.File) error {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			if ts, ok := s.(*ast.TypeSpec); ok {
				if st, ok := ts.Type.(*ast.StructType); ok {
					if w.types[ts.Name.Name] != nil {
						return fmt.Errorf("package %s has a second type %s: rename it", f.Name, ts.Name)
					}
					w.types[ts.Name.Name], w.docs[ts.Name.Name] = st, g.Doc.Text()
				}
			}
		}
	}
	return nil
}

func TestSchemasRefuseTwoTypesOfOneName(t *testing.T) {
	w := &writer{types: map[string]*ast.StructType{}, docs: map[string]string{}}
	for _, tc := range []struct{ source, want string }{
		{"package api; type Node struct{}; type Kind int", "<nil>"},
		{"package event; type Phase struct{}; type Kind int", "<nil>"},
		{"package event; type Node struct{}", "package event has a second type Node: rename it"},
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), "", tc.source, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(w.read(parsed)); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.source, got, tc.want)
		}
	}
}

func (w *writer) schema(name string) error {
	if w.out[name] != "" {
		return nil
	}
	st := w.types[name]
	if st == nil {
		return fmt.Errorf("package api has no type %s", name)
	}
	w.out[name] = "…" // types may refer to each other
	var required []string
	var properties strings.Builder
	if err := w.fields(st, &required, &properties); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	w.out[name] = fmt.Sprintf("    %s:\n      type: object\n      description: %s\n      required: [%s]\n      properties:\n%s",
		name, quoted(w.docs[name]), strings.Join(required, ", "), properties.String())
	return nil
}

func (w *writer) fields(st *ast.StructType, required *[]string, properties *strings.Builder) error {
	for _, f := range st.Fields.List {
		if len(f.Names) == 0 {
			within, ok := f.Type.(*ast.Ident)
			if !ok || w.types[within.Name] == nil {
				return fmt.Errorf("a field without a name is no type of admin: %v", f.Type)
			}
			if err := w.fields(w.types[within.Name], required, properties); err != nil {
				return err
			}
			continue
		}
		name, option, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		if name == "-" {
			continue
		}
		if option == "" {
			*required = append(*required, name)
		}
		kind, err := w.kind(f.Type)
		if err != nil {
			return err
		}
		if about := f.Doc.Text() + f.Comment.Text(); about != "" {
			kind += ", description: " + quoted(about)
		}
		fmt.Fprintf(properties, "        %s: {%s}\n", name, kind)
	}
	return nil
}

// kind returns the schema of a field's type.
func (w *writer) kind(e ast.Expr) (string, error) {
	switch e := e.(type) {
	case *ast.StarExpr:
		return w.kind(e.X)
	case *ast.ArrayType:
		of, err := w.kind(e.Elt)
		return "type: array, items: {" + of + "}", err
	case *ast.MapType:
		of, err := w.kind(e.Value)
		return "type: object, additionalProperties: {" + of + "}", err
	case *ast.SelectorExpr:
		if e.Sel.Name == "Time" {
			return "type: string, format: date-time", nil
		}
		return w.kind(e.Sel)
	case *ast.Ident:
		switch e.Name {
		case "string", "Verb", "Code", "Severity", "Kind":
			return "type: string", nil
		case "bool":
			return "type: boolean", nil
		case "float64":
			return "type: number", nil
		case "int", "int32", "int64", "uint8", "uint16", "uint32", "uint64":
			return "type: integer", nil
		}
		return `$ref: "#/components/schemas/` + e.Name + `"`, w.schema(e.Name)
	}
	return "", fmt.Errorf("no schema for a %T", e)
}

func quoted(text string) string {
	return fmt.Sprintf("%q", strings.Join(strings.Fields(text), " "))
}
