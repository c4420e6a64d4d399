//go:build linux

package recipes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// findProgram returns the path of the first of these programs that is installed. Without any of them the test fails,
// because .ci/run installs them.
func findProgram(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatalf("none of %q is installed: see the need lines in .ci/run", names)
	return ""
}

// findPinned returns the path of a program that make tools has built from a Go module: .bin/NAME-VERSION, with the
// version in the Makefile.
func findPinned(t *testing.T, name string) string {
	t.Helper()
	makefile, err := os.ReadFile("../../Makefile")
	must(t, err)
	pin := regexp.MustCompile(`(?m)^` + strings.ToUpper(name) + `_VERSION := (\S+)$`).FindSubmatch(makefile)
	if pin == nil {
		t.Fatalf("the Makefile contains no version of %s", name)
	}
	path, err := filepath.Abs("../../.bin/" + name + "-" + string(pin[1]))
	must(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run make tools", err)
	}
	return path
}

// npmCI copies testdata/NAME into a directory of the test, and installs the modules of its
// package-lock.json there.
func npmCI(t *testing.T, name string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
	npm := findProgram(t, "npm")
	cmd := exec.CommandContext(t.Context(), npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci in a copy of testdata/%s: %v\n%s", name, err, out)
	}
	return dir
}
