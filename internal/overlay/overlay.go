// Package overlay plants bugs in the source code, so that tests can verify that other tests
// find them. It writes edited copies of source files, and the list of replacements for the
// -overlay flag of the go command. The source files themselves remain unchanged.
//
// Only tests and benchmarks use it.
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
	"time"
)

// Edit replaces text in one declaration of a package, including its doc comment. It does not
// name the file, so it remains valid when the declaration moves to another file of the package.
type Edit struct {
	// Decl is the qualified name of the declaration, with the directory of the package below the
	// root of the source: "ack/agent.Agent.Tick" is a method. "proxy/h1.errTooLong" is a
	// function, a type, or the first name of a group of variables or constants. "main.Type" is
	// in the package of the root itself.
	Decl string
	// Old must occur exactly once in the declaration. It is replaced by New.
	Old, New string
}

// Overlay contains the files that a build uses instead of the files on disk.
type Overlay struct {
	root  string
	files map[string]string // by path below root
	// declared contains the file of each declaration, by package directory and name. It covers
	// only packages that were edited. An empty file means that the name is not unique.
	declared map[string]map[string]string
}

// New returns an empty overlay of the source below root.
func New(root string) *Overlay {
	return &Overlay{root: root, files: map[string]string{}, declared: map[string]map[string]string{}}
}

// Add adds a file, or replaces its whole text.
func (o *Overlay) Add(file, text string) { o.files[file] = text }

// Edit applies an edit, in addition to earlier edits. It fails unless the package has exactly one
// declaration of that name for this platform, and the old text occurs exactly once in it. A failure
// means that the source has changed, and the edit must be adapted.
func (o *Overlay) Edit(edit Edit) error {
	dir, name, err := splitDecl(edit.Decl)
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
	start, end, err := declRange(file, text, name)
	if err != nil {
		return err
	}
	decl := text[start:end]
	if n := strings.Count(decl, edit.Old); n != 1 {
		return fmt.Errorf("overlay: %q occurs %d times in %s, want once", edit.Old, n, edit.Decl)
	}
	o.files[file] = text[:start] + strings.Replace(decl, edit.Old, edit.New, 1) + text[end:]
	return nil
}

// text returns the text of a file, with all edits so far.
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

// Write writes the files into dir and returns the argument for go build -overlay.
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

// Switch is the environment variable that activates one bug in a program built by TestBinary.
// Its value is the number of the bug, counted from 1.
const Switch = "SHARDWAY_TEST_MISTAKE"

// Plant adds several bugs to the source, so that one program contains all of them. The word
// PLANTED in an edit is replaced by a condition that is true while Switch activates its bug.
func (o *Overlay) Plant(mistakes [][]Edit) error {
	for i, edits := range mistakes {
		for _, edit := range edits {
			dir, _, err := splitDecl(edit.Decl)
			if err != nil {
				return err
			}
			o.Add(filepath.Join(dir, "planted.go"), switchSource(filepath.Base(dir)))
			isActive := fmt.Sprintf("(planted == %q)", Number(i))
			edit.New = strings.ReplaceAll(edit.New, "PLANTED", isActive)
			if err := o.Edit(edit); err != nil {
				return err
			}
		}
	}
	return nil
}

// switchSource returns the source file that reads Switch at the start of the program.
func switchSource(pkg string) string {
	return fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar planted = os.Getenv(%q)\n", pkg, Switch)
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

// Number returns the value of Switch for the bug that Plant received at index i.
func Number(i int) string { return strconv.Itoa(i + 1) }

// Find runs the tests of a binary that match a pattern, with the bug of index i. It returns an
// error unless one of them fails within two minutes. A test that times out has not found the bug. A
// synctest bubble in which all goroutines are blocked panics, which is treated as found.
func Find(ctx context.Context, binary string, i int, tests string) error {
	cmd := exec.CommandContext(ctx, binary, "-test.run="+tests, "-test.failfast", "-test.timeout=2m") //nolint:gosec // a test's own
	cmd.Env = append(os.Environ(), Switch+"="+Number(i))
	cmd.WaitDelay = time.Second // a process that a bug leaves behind may have the output open
	output, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return fmt.Errorf("%s does not find it:\n%.2000s", tests, output)
	case strings.Contains(string(output), "panic: test timed out"):
		return fmt.Errorf("%s does not find it in time: %w\n%.2000s", tests, err, output)
	}
	return nil
}
