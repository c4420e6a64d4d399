package docs_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"shardway/admin/api"
	"shardway/shardmap"
)

// vector is a line of docs/apps/client-routing.md: a key, and its shard of so many.
type vector struct {
	key    string
	shards map[int]shardmap.Shard
}

func vectors(t *testing.T) []vector {
	t.Helper()
	line := regexp.MustCompile("(?m)^\\| `(\".*\")` \\| `([0-9a-f]{16})` \\| (\\d+) \\| (\\d+) \\| (\\d+) \\| (\\d+) \\|$")
	var out []vector
	for _, m := range line.FindAllStringSubmatch(pages(t)["docs/apps/client-routing.md"], -1) {
		v := vector{shards: map[int]shardmap.Shard{}}
		if err := json.Unmarshal([]byte(m[1]), &v.key); err != nil {
			t.Fatalf("%s: %v", m[1], err)
		}
		hash, err := strconv.ParseUint(m[2], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range []int{7, 1024, 16384, 65536} {
			s, err := strconv.Atoi(m[3+i])
			if err != nil || uint64(s) != hash%uint64(n) {
				t.Fatalf("%q: %s mod %d is not %s (%v)", v.key, m[2], n, m[3+i], err)
			}
			v.shards[n] = shardmap.Shard(s)
		}
		out = append(out, v)
	}
	if len(out) < 10 {
		t.Fatalf("docs/apps/client-routing.md has %d vectors", len(out))
	}
	return out
}

func TestVectorsAreTheHash(t *testing.T) {
	for _, v := range vectors(t) {
		for n, want := range v.shards {
			if got := shardmap.ShardOf(v.key, n); got != want {
				t.Errorf("%q is in shard %d of %d, the page says %d", v.key, got, n, want)
			}
		}
	}
}

// TestProgramsFindOwners runs the programs of docs/apps/client-routing.md as they stand there: each
// finds every key of the vectors, and says anew when there is a newer map.
func TestProgramsFindOwners(t *testing.T) {
	t.Parallel()
	for _, language := range []string{"go", "python", "js"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			_, rest, found := strings.Cut(pages(t)["docs/apps/client-routing.md"], "\n```"+language+"\n")
			text, _, ended := strings.Cut(rest, "\n```\n")
			if !found || !ended {
				t.Fatal("the page has no program in it")
			}
			followsTheMap(t, made(t, language, text))
		})
	}
}

// made returns the command line of a program.
func made(t *testing.T, language, text string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if language == "go" {
		program := strings.TrimSuffix(file, ".go")
		build := exec.CommandContext(t.Context(), "go", "build", "-o", program, file)
		build.Dir = root // its go.mod names the hash
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return []string{program}
	}
	interpreter, err := exec.LookPath(map[string]string{"python": "python3", "js": "node"}[language])
	if err != nil {
		t.Skipf("%v: what the page shows in it is not run", err)
	}
	return []string{interpreter, file}
}

// followsTheMap runs a program beside a node that has first one map, then a newer one
// in which every shard has gone on to the next node, and the last node's have no owner.
func followsTheMap(t *testing.T, command []string) {
	t.Helper()
	const shards = 1024
	nodes := []api.MapNode{{ID: "a", HTTP: "10.0.0.1:80"}, {ID: "b", HTTP: "10.0.0.2:80"}, {ID: "c", HTTP: "10.0.0.3:80"}}
	owner := func(epoch uint64, s int) int {
		if s%3 == 2 && epoch > 7 {
			return -1
		}
		return (s + int(epoch)) % 3
	}
	moved, ended := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := api.Map{Epoch: 7, Shards: shards, Hash: api.HashName, Nodes: nodes}
		switch r.URL.Query().Get("after") {
		case "0":
		case "7":
			select {
			case <-moved:
			case <-ended:
			}
			m.Epoch = 11
		default:
			<-ended
			return
		}
		for s := range shards {
			m.Owners = append(m.Owners, owner(m.Epoch, s))
		}
		_ = json.NewEncoder(w).Encode(m) // to a program that may have ended
	}))
	defer server.Close()
	defer close(ended)

	args := append(command[1:], server.URL)
	for _, v := range vectors(t) {
		args = append(args, v.key)
	}
	program := exec.CommandContext(t.Context(), command[0], args...)
	program.Stderr = os.Stderr
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = program.Process.Kill()
		_ = program.Wait() // killed
	}()
	lines := bufio.NewScanner(out)
	for _, epoch := range []uint64{7, 11} {
		for _, v := range vectors(t) {
			s := v.shards[shards]
			want := fmt.Sprint(v.key, " ", s, " - -")
			if i := owner(epoch, int(s)); i >= 0 {
				want = fmt.Sprint(v.key, " ", s, " ", nodes[i].ID, " ", nodes[i].HTTP)
			}
			if !lines.Scan() || lines.Text() != want {
				t.Fatalf("map %d: it says %q (%v), not %q", epoch, lines.Text(), lines.Err(), want)
			}
		}
		if epoch == 7 {
			close(moved)
		}
	}
}
