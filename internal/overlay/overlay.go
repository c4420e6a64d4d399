// Package overlay plants mistakes in source for tests: it writes files with edits
// in them, and the list by which the go command's -overlay compiles these in the
// place of the real ones. The code that is shipped knows nothing of them.
//
// Only tests use it.
package overlay

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Edit replaces text in one declaration of a package, doc comment included. Which file declares
// it does not matter, so an edit outlives moves between files.
type Edit struct {
	// Decl names the declaration as Go qualifies it, with the directory of its package below
	// the root of the source: "ack/agent.Agent.Tick" is a method, "proxy/h1.errTooLong" a function, a
	// type, or the first name of a group of variables or constants. "main.Type" is in the
	// package of the root itself.
	Decl string
	// Old must occur exactly once in the declaration, and New takes its place.
	Old, New string
}

// Overlay is what a build is to see instead of the files on disk.
type Overlay struct {
	root  string
	files map[string]string // by path below root
	// declared is where the declarations of the packages are that were edited, by package
	// directory and name.
	declared map[string]map[string]string
}

// New returns an empty overlay of the source below root.
func New(root string) *Overlay {
	return &Overlay{root: root, files: map[string]string{}, declared: map[string]map[string]string{}}
}

// Add adds a file, or replaces it whole.
func (o *Overlay) Add(file, text string) { o.files[file] = text }

// Edit edits a declaration, with the edits it had before. It fails unless the package has one
// declaration of that name for this platform, and the old text occurs once in it: otherwise the
// source has changed, and the edit must change with it.
func (o *Overlay) Edit(e Edit) error {
	dir, name, err := split(e.Decl)
	if err != nil {
		return err
	}
	file, err := o.find(dir, name)
	if err != nil {
		return err
	}
	text, err := o.text(file)
	if err != nil {
		return err
	}
	begin, end, err := span(file, text, name)
	if err != nil {
		return err
	}
	decl := text[begin:end]
	if n := strings.Count(decl, e.Old); n != 1 {
		return fmt.Errorf("overlay: %q occurs %d times in %s, want once", e.Old, n, e.Decl)
	}
	o.files[file] = text[:begin] + strings.Replace(decl, e.Old, e.New, 1) + text[end:]
	return nil
}

// text returns a file with the edits that it has had.
func (o *Overlay) text(file string) (string, error) {
	if text, ok := o.files[file]; ok {
		return text, nil
	}
	b, err := os.ReadFile(filepath.Join(o.root, file)) //nolint:gosec // a source file of the module
	if err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	return string(b), nil
}

// Write writes the files into dir and returns the path that go build -overlay
// takes.
func (o *Overlay) Write(dir string) (string, error) {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	replace := map[string]string{}
	for file, text := range o.files {
		path := filepath.Join(dir, strings.ReplaceAll(file, string(filepath.Separator), "_"))
		if err = os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("overlay: %w", err)
		}
		replace[filepath.Join(root, file)] = path
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	return path, nil
}

// Switch is the environment variable that says which mistake a program built by
// TestBinary has: its number, counted from 1.
const Switch = "SHARDWAY_TEST_MISTAKE"

// Plant edits the source for mistakes that are all compiled into one program. In the edits of
// each, PLANTED stands for the condition that the program has it.
func (o *Overlay) Plant(mistakes [][]Edit) error {
	for i, edits := range mistakes {
		for _, e := range edits {
			dir, _, err := split(e.Decl)
			if err != nil {
				return err
			}
			o.Add(filepath.Join(dir, "planted.go"), fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar planted = os.Getenv(%q)\n", filepath.Base(dir), Switch))
			e.New = strings.ReplaceAll(e.New, "PLANTED", fmt.Sprintf("(planted == %q)", Number(i)))
			if err := o.Edit(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestBinary compiles the tests of the package at path below the root with the edits,
// and returns the program.
func (o *Overlay) TestBinary(ctx context.Context, dir, path string) (string, error) {
	list, err := o.Write(dir)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "planted.test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay="+list, "-o", binary, "./"+path) //nolint:gosec // a test's own
	cmd.Dir = o.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("overlay: %w\n%s", err, out)
	}
	return binary, nil
}

// Number returns what Switch says for the i-th of the mistakes that Plant was given,
// from 0.
func Number(i int) string { return strconv.Itoa(i + 1) }

// Find runs those tests of a binary that a pattern matches, with the mistake of index i. It
// returns an error unless one of them fails within two minutes. A test that times out has not found
// the mistake. A synctest bubble in which all goroutines are blocked panics, which counts as found.
func Find(ctx context.Context, binary string, i int, tests string) error {
	cmd := exec.CommandContext(ctx, binary, "-test.run="+tests, "-test.failfast", "-test.timeout=2m") //nolint:gosec // a test's own
	cmd.Env = append(os.Environ(), Switch+"="+Number(i))
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return fmt.Errorf("%s does not find it:\n%.2000s", tests, out)
	case strings.Contains(string(out), "panic: test timed out"):
		return fmt.Errorf("%s does not find it in time: %w\n%.2000s", tests, err, out)
	}
	return nil
}
