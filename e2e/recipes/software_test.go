//go:build linux

package recipes_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
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

// installations are the directories of npmCI, by name.
var installations = struct {
	sync.Mutex
	byName map[string]func() (string, error)
}{byName: map[string]func() (string, error){}}

// npmCI returns a copy of testdata/NAME with the modules of its package-lock.json. Tests share it, so they must not
// write to it.
func npmCI(t *testing.T, name string) (dir string) {
	t.Helper()
	npm := findProgram(t, "npm")
	installations.Lock()
	install := installations.byName[name]
	if install == nil {
		install = sync.OnceValues(func() (string, error) { return installModules(npm, name) })
		installations.byName[name] = install
	}
	installations.Unlock()
	dir, err := install()
	must(t, err)
	return dir
}

// installModules installs the modules for npmCI. removeInstallations removes them.
func installModules(npm, name string) (string, error) {
	dir, err := os.MkdirTemp("", "shardway-recipe-"+name)
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))); err != nil {
		return dir, err
	}
	cmd := exec.CommandContext(context.Background(), npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("npm ci in a copy of testdata/%s: %w\n%s", name, err, out)
	}
	return dir, nil
}

// removeInstallations removes the directories of npmCI at the end of the test run.
func removeInstallations() {
	for _, install := range installations.byName {
		if dir, _ := install(); dir != "" {
			_ = os.RemoveAll(dir)
		}
	}
}
