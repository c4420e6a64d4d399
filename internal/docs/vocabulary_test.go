package docs_test

import (
	"bytes"
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

//go:embed vocabulary/banned.txt
var bannedWords string

// vocabularyBaseline has the number of names with a banned word of each top-level directory.
const vocabularyBaseline = "vocabulary/baseline.txt"

// standardTerms are terms of a protocol that contain a banned word.
var standardTerms = strings.NewReplacer("GoAway", "Goaway", "goAway", "goaway", "GOAWAY", "Goaway", "RoundTrip", "Roundtrip", "roundTrip", "roundtrip")

// A name that needs a private word cannot be found by a reader who knows the field. The flag -update
// lowers the counts in the baseline; they can only shrink.
func TestNamesAvoidBannedVocabulary(t *testing.T) {
	banned := map[string]string{}
	for line := range strings.Lines(bannedWords) {
		if word, use, ok := strings.Cut(strings.TrimSpace(line), " "); ok && word != "#" {
			banned[word] = strings.TrimSpace(use)
		}
	}
	hits := map[string][]string{}
	for name := range namesOfTree(t) {
		for _, word := range wordsOf(name.text) {
			if use := banned[word]; use != "" {
				area, _, _ := strings.Cut(name.file, "/")
				hits[area] = append(hits[area], fmt.Sprintf("%s: %s %s: instead of %q use %s", name.file, name.kind, name.text, word, use))
				break
			}
		}
	}
	allowed := readVocabularyBaseline(t)
	for area, found := range hits {
		if len(found) > allowed[area] {
			slices.Sort(found)
			t.Errorf("%s has %d names with words of vocabulary/banned.txt, and up to %d are allowed:\n%s", area, len(found), allowed[area], strings.Join(found, "\n"))
		}
	}
	if !*update {
		return
	}
	var b bytes.Buffer
	for _, area := range slices.Sorted(maps.Keys(hits)) {
		count := len(hits[area])
		if len(allowed) > 0 {
			count = min(count, allowed[area])
		}
		if count > 0 {
			fmt.Fprintf(&b, "%s %d\n", area, count)
		}
	}
	if err := os.WriteFile(vocabularyBaseline, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func readVocabularyBaseline(t *testing.T) map[string]int {
	t.Helper()
	b, err := os.ReadFile(vocabularyBaseline)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	allowed := map[string]int{}
	for line := range strings.Lines(string(b)) {
		area, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		if allowed[area], err = strconv.Atoi(count); err != nil {
			t.Fatalf("%s: %q: %v", vocabularyBaseline, line, err)
		}
	}
	return allowed
}

type declaredName struct{ file, kind, text string }

// namesOfTree returns the names of all Go files, packages, types, functions, methods and tests.
func namesOfTree(t *testing.T) map[declaredName]bool {
	t.Helper()
	names := map[declaredName]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		file := filepath.ToSlash(rel)
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		names[declaredName{file, "file", strings.TrimSuffix(d.Name(), ".go")}] = true
		names[declaredName{filepath.ToSlash(filepath.Dir(rel)), "package", f.Name.Name}] = true
		for _, decl := range f.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				names[declaredName{file, "function", decl.Name.Name}] = true
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						names[declaredName{file, "type", s.Name.Name}] = true
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

var partOfName = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// wordsOf splits a name at underscores, digits and capitals, and returns its words in lower case.
func wordsOf(name string) []string {
	var words []string
	for _, part := range partOfName.FindAllString(standardTerms.Replace(name), -1) {
		words = append(words, strings.ToLower(part))
	}
	return words
}
