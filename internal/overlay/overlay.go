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

// Edit replaces text in a file.
type Edit struct {
	// File is its path below the root of the source.
	File string
	// Old must occur in it exactly once, and New takes its place.
	Old, New string
}

// Overlay is what a build is to see instead of the files on disk.
type Overlay struct {
	root  string
	files map[string]string // by path below root
}

// New returns an empty overlay of the source below root.
func New(root string) *Overlay { return &Overlay{root: root, files: map[string]string{}} }

// Add adds a file, or replaces it whole.
func (o *Overlay) Add(file, text string) { o.files[file] = text }

// Edit edits a file, with the edits it had before. It fails unless the old text
// occurs once: then the line has changed, and the mistake is to be planted anew.
func (o *Overlay) Edit(e Edit) error {
	text, ok := o.files[e.File]
	if !ok {
		b, err := os.ReadFile(filepath.Join(o.root, e.File))
		if err != nil {
			return fmt.Errorf("overlay: %w", err)
		}
		text = string(b)
	}
	if n := strings.Count(text, e.Old); n != 1 {
		return fmt.Errorf("overlay: %q occurs %d times in %s, want once", e.Old, n, e.File)
	}
	o.files[e.File] = strings.Replace(text, e.Old, e.New, 1)
	return nil
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

// Plant edits the source of a package, at path below the root, for mistakes that are
// all compiled into one program. In the edits of each, PLANTED stands for the condition
// that the program has it.
func (o *Overlay) Plant(path, pkg string, mistakes [][]Edit) error {
	o.Add(filepath.Join(path, "planted.go"), fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar planted = os.Getenv(%q)\n", pkg, Switch))
	for i, edits := range mistakes {
		for _, e := range edits {
			e.File = filepath.Join(path, e.File)
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
// returns an error unless one of them fails: in two minutes, for who waits for what never comes
// has found nothing. A bubble in which nothing moves any more panics, and so has found it.
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
