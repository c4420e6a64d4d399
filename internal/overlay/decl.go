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
	for _, entry := range entries {
		isSource, err := o.isSource(dir, entry.Name())
		if err != nil {
			return err
		}
		if !isSource {
			continue
		}
		if err := o.indexFile(filepath.Join(dir, entry.Name()), declared); err != nil {
			return err
		}
	}
	o.declared[dir] = declared
	return nil
}

// isSource reports whether a file is compiled into the package on this platform.
func (o *Overlay) isSource(dir, name string) (bool, error) {
	if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
		return false, nil
	}
	matches, err := build.Default.MatchFile(filepath.Join(o.root, dir), name)
	if err != nil {
		return false, fmt.Errorf("overlay: %w", err)
	}
	return matches, nil
}

// indexFile adds the declarations of a file to declared. A name that is declared twice gets an empty
// file name.
func (o *Overlay) indexFile(file string, declared map[string]string) error {
	text, err := o.text(file)
	if err != nil {
		return err
	}
	return forEachDecl(file, text, func(name string, _, _ int) {
		if _, isDuplicate := declared[name]; isDuplicate {
			declared[name] = ""
		} else {
			declared[name] = file
		}
	})
}

// declRange returns the start and end offsets of a declaration in the text of its file.
func declRange(file, text, name string) (start, end int, err error) {
	start = -1
	err = forEachDecl(file, text, func(declName string, declBegin, declEnd int) {
		if declName == name {
			start, end = declBegin, declEnd
		}
	})
	if err == nil && start < 0 {
		err = fmt.Errorf("overlay: an edit before this one removed %q from %s", name, file)
	}
	return start, end, err
}

// forEachDecl calls visit for every top-level declaration of a file, with its name and its start and
// end offsets. The range includes the doc comment and the rest of the last line. A group of
// specifications has the names of its first specification. Blank names and imports are omitted.
func forEachDecl(file, text string, visit func(name string, start, end int)) error {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	for _, decl := range parsed.Decls {
		names, doc := declaredNames(decl)
		first := decl.Pos()
		if doc != nil {
			first = doc.Pos()
		}
		start := files.Position(first).Offset
		end := endOfLine(text, files.Position(decl.End()).Offset)
		for _, name := range names {
			if name != "_" {
				visit(name, start, end)
			}
		}
	}
	return nil
}

// endOfLine returns the offset after the end of the line that contains an offset.
func endOfLine(text string, offset int) int {
	length := strings.IndexByte(text[offset:], '\n')
	if length < 0 {
		return offset
	}
	return offset + length + 1
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
