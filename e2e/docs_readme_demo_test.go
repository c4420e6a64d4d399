//go:build linux

package e2e_test

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readmeBlocks returns the code blocks under a heading of README.md.
func readmeBlocks(t *testing.T, heading string) (blocks [][]string) {
	t.Helper()
	return codeBlocks(t, "README.md", heading)
}

// codeBlocks returns the code blocks under a heading of a page, including subheadings, line by
// line.
func codeBlocks(t *testing.T, page, heading string) (blocks [][]string) {
	t.Helper()
	b, err := os.ReadFile("../" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, part, found := strings.Cut(string(b), "\n## "+heading+"\n")
	part, _, _ = strings.Cut(part, "\n## ")
	within := false
	for line := range strings.SplitSeq(part, "\n") {
		code, is := strings.CutPrefix(line, "    ")
		if is && !within {
			blocks = append(blocks, nil)
		}
		if within = is; is {
			blocks[len(blocks)-1] = append(blocks[len(blocks)-1], code)
		}
	}
	if !found || len(blocks) == 0 {
		t.Fatalf("%s has no commands under %q", page, heading)
	}
	return blocks
}

// directoryWithBinary creates a directory that contains ./shardway.
func directoryWithBinary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(binaries(t).Node, filepath.Join(dir, "shardway")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runReadmeCommands runs the commands of README for a running demo as printed, except for
// ports that are in use on this machine. Once, status as printed there asked the second
// app, and a browser got {"code":"no-key"}.
func runReadmeCommands(t *testing.T, output string, curls [][]string) {
	t.Helper()
	dir := directoryWithBinary(t)
	usual := []string{"http://127.0.0.1:8080/", "http://127.0.0.1:8082/", "http://127.0.0.1:8084/"}
	admin := "127.0.0.1:8081"
	if m := regexp.MustCompile(`shardway status --admin (\S+)`).FindStringSubmatch(output); m != nil {
		admin = m[1]
	}
	var node string
	asked := 0
	for _, line := range slices.Concat(readmeBlocks(t, "Try it")...) {
		for i, url := range usual {
			line = strings.ReplaceAll(line, url, "<"+curls[i][2]+">")
		}
		line = strings.NewReplacer("<", "", ">", "").Replace(line)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "SHARDWAY_ADMIN="+admin)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("README: %s: %v\n%s", line, err, out)
		}
		if !strings.HasPrefix(line, "curl") {
			if !strings.Contains(string(out), node) {
				t.Errorf("README: %s does not name %s:\n%s", line, node, out)
			}
			continue
		}
		asked++
		var got counted
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("README: %s: %v\n%s", line, err, out)
		}
		if node = cmp.Or(node, got.Node); got.Node != node || got.Count != asked {
			t.Errorf("README: %s: %+v, want count %d from %s", line, got, asked, node)
		}
	}
	if asked != 3 {
		t.Errorf("README asks %d times, want 3", asked)
	}
	openInBrowser(t, curls[0][2])
}

// openInBrowser requests a page like a browser, without a key.
func openInBrowser(t *testing.T, url string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "curl", "-si", "-H", "Accept: text/html,*/*;q=0.8", url).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"HTTP/1.1 200 ", "\nSet-Cookie: Shardway-Key=", "\nContent-Type: text/html", `id="count">1<`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("a browser at %s does not get %q:\n%s", url, want, out)
		}
	}
}
