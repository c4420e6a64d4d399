package overlay

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// splitDecl parses Edit.Decl.
func splitDecl(decl string) (dir, name string, err error) {
	slash := strings.LastIndexByte(decl, '/') + 1
	dir, name, ok := strings.Cut(decl[slash:], ".")
	if !ok || dir == "" || name == "" {
		return "", "", fmt.Errorf("overlay: declaration %q: write it as \"dir/package.Type.Method\"", decl)
	}
	if dir = decl[:slash] + dir; dir == "main" {
		dir = "."
	}
	return dir, name, nil
}

// find returns the file, below the root, that declares a name of the package in dir.
func (o *Overlay) find(dir, name string) (string, error) {
	if o.declared[dir] == nil {
		if err := o.index(dir); err != nil {
			return "", err
		}
	}
	switch file, ok := o.declared[dir][name]; {
	case !ok:
		return "", fmt.Errorf("overlay: %s declares no %q: it was renamed or moved to another package", dir, name)
	case file == "":
		return "", fmt.Errorf("overlay: %s declares %q more than once", dir, name)
	default:
		return file, nil
	}
}

// index records the declarations of a package: those in files that are compiled on this platform,
// without tests.
func (o *Overlay) index(dir string) error {
	entries, err := os.ReadDir(filepath.Join(o.root, dir))
	if err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	declared := map[string]string{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		ok, err := build.Default.MatchFile(filepath.Join(o.root, dir), e.Name())
		if err != nil {
			return fmt.Errorf("overlay: %w", err)
		}
		if !ok {
			continue
		}
		file := filepath.Join(dir, e.Name())
		text, err := o.text(file)
		if err != nil {
			return err
		}
		if err = forEachDecl(file, text, func(name string, _, _ int) {
			if _, twice := declared[name]; twice {
				declared[name] = ""
			} else {
				declared[name] = file
			}
		}); err != nil {
			return err
		}
	}
	o.declared[dir] = declared
	return nil
}

// declRange returns the start and end offsets of a declaration in the text of its file.
func declRange(file, text, name string) (begin, end int, err error) {
	begin = -1
	err = forEachDecl(file, text, func(declName string, declBegin, declEnd int) {
		if declName == name {
			begin, end = declBegin, declEnd
		}
	})
	if err == nil && begin < 0 {
		err = fmt.Errorf("overlay: an edit before this one took %q out of %s", name, file)
	}
	return begin, end, err
}

// forEachDecl calls visit for every top-level declaration of a file, with its name and its start and
// end offsets. The range includes the doc comment and the rest of the last line. A group of
// specifications has the names of its first specification. Blank names and imports are omitted.
func forEachDecl(file, text string, visit func(name string, begin, end int)) error {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	for _, decl := range parsed.Decls {
		names, doc := declaredNames(decl)
		begin := decl.Pos()
		if doc != nil {
			begin = doc.Pos()
		}
		end := files.Position(decl.End()).Offset
		if i := strings.IndexByte(text[end:], '\n'); i >= 0 {
			end += i + 1
		}
		for _, n := range names {
			if n != "_" {
				visit(n, files.Position(begin).Offset, end)
			}
		}
	}
	return nil
}

// declaredNames returns the names of a declaration and its doc comment.
func declaredNames(d ast.Decl) (names []string, doc *ast.CommentGroup) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}, d.Doc
		}
		return []string{receiverName(d.Recv.List[0].Type) + "." + d.Name.Name}, d.Doc
	case *ast.GenDecl:
		if len(d.Specs) == 0 {
			return nil, nil
		}
		switch s := d.Specs[0].(type) {
		case *ast.TypeSpec:
			return []string{s.Name.Name}, d.Doc
		case *ast.ValueSpec:
			for _, n := range s.Names {
				names = append(names, n.Name)
			}
			return names, d.Doc
		}
	}
	return nil, nil
}

// receiverName returns the name of the type of a method.
func receiverName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiverName(x.X)
	case *ast.IndexExpr:
		return receiverName(x.X)
	case *ast.IndexListExpr:
		return receiverName(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}
