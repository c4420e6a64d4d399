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

// Whoever builds a commit gets the bytes that others got: in another directory, by another
// user, with other settings of Go.
func TestBinaryIsTheSameFromEveryTree(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if out, gone := exec.CommandContext(t.Context(), "git", "-C", root, "rev-parse", "HEAD").CombinedOutput(); gone != nil {
		t.Skipf("not a git tree, so no revision is stamped: %v, %s", gone, out)
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
			msg, failed := cmd.CombinedOutput()
			if failed != nil {
				t.Fatalf("%q: %v\n%s", args, failed, msg)
			}
			return strings.TrimSpace(string(msg))
		}
		run(dir, "git", "clone", "-q", from, tree)
		from = tree // the same commit, whatever is committed meanwhile
		run(dir, filepath.Join(tree, "deploy", "dist"), out, platform)
		binary := filepath.Join(out, "shardway-"+strings.ReplaceAll(platform, "/", "-"))
		if built[i], err = os.ReadFile(binary); err != nil {
			t.Fatal(err)
		}
		if says, commit := run(out, binary, "version"), run(tree, "git", "rev-parse", "HEAD"); !strings.Contains(says, "commit "+commit+" of 20") {
			t.Errorf("it says %q, of commit %s", says, commit)
		}
		run(out, "sha256sum", "--quiet", "-c", "SHA256SUMS")
	}
	if !bytes.Equal(built[0], built[1]) {
		t.Errorf("two builds of one commit differ: %d and %d bytes", len(built[0]), len(built[1]))
	}
	if bytes.Contains(built[0], []byte(root)) {
		t.Error("the binary has this tree's path in it")
	}
}
