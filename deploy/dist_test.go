//go:build dist

package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Builds of one commit are identical, also in different directories and with different Go settings.
func TestBuildIsReproducible(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "git", "-C", root, "rev-parse", "HEAD").CombinedOutput(); err != nil {
		t.Skipf("no git tree, so the binary has no revision: %v, %s", err, out)
	}
	platform := "linux/" + runtime.GOARCH
	var built [2][]byte
	from := root
	for i, settings := range [][]string{{"GOFLAGS=-trimpath", "CGO_ENABLED=1"}, {"GOFLAGS=-tags=any -v", "GOOS=plan9"}} {
		dir := t.TempDir()
		tree, out := filepath.Join(dir, strings.Repeat("deep/", i)+"tree"), filepath.Join(dir, "out")
		run := func(dir string, args ...string) string {
			t.Helper()
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), settings...)
			output, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%q: %v\n%s", args, err, output)
			}
			return strings.TrimSpace(string(output))
		}
		run(dir, "git", "clone", "-q", from, tree)
		from = tree // the same commit, even if a new commit is created during the test
		run(dir, filepath.Join(tree, "deploy", "dist"), out, platform)
		binary := filepath.Join(out, "shardway-"+strings.ReplaceAll(platform, "/", "-"))
		if built[i], err = os.ReadFile(binary); err != nil {
			t.Fatal(err)
		}
		if version, commit := run(out, binary, "version"), run(tree, "git", "rev-parse", "HEAD"); !strings.Contains(version, "commit "+commit+" of 20") {
			t.Errorf("version %q, want commit %s", version, commit)
		}
		run(out, "sha256sum", "--quiet", "-c", "SHA256SUMS")
	}
	if !bytes.Equal(built[0], built[1]) {
		t.Errorf("two builds of one commit differ: %d and %d bytes", len(built[0]), len(built[1]))
	}
	if bytes.Contains(built[0], []byte(root)) {
		t.Error("the binary contains the path of this tree")
	}
}
