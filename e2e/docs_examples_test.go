//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/load"
	"shardway/e2e/kit/procgroup"
)

// example is a program of the documentation.
type example struct {
	page     string // its page in docs/apps
	language string // of its code block
	// command prepares the program in a directory that contains its text, and returns its
	// command line.
	command func(t *testing.T, dir, text string) []string
	// written reports that the program writes before it responds, so that a crash loses
	// no data.
	written bool
}

func examples() []example {
	script := func(interpreter string) func(*testing.T, string, string) []string {
		return func(t *testing.T, dir, text string) []string {
			t.Helper()
			at, err := exec.LookPath(interpreter)
			if err != nil {
				t.Skipf("%v: what the page shows in it is not run", err)
			}
			file := filepath.Join(dir, "app")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{at, file}
		}
	}
	return []example{
		{"examples-go.md", "go", func(t *testing.T, dir, text string) []string { t.Helper(); return compile(t, dir, text) }, true},
		{"examples-python.md", "python", script("python3"), true},
		{"examples-node.md", "js", script("node"), false},
	}
}

// program returns the text of the program.
func (x example) program(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("../docs/apps", x.page))
	must(t, err)
	_, rest, found := strings.Cut(string(page), "\n```"+x.language+"\n")
	text, _, ended := strings.Cut(rest, "\n```\n")
	if !found || !ended {
		t.Fatalf("%s has no program in %s", x.page, x.language)
	}
	return text
}

// compile builds a Go program with the module versions of this repository.
func compile(t *testing.T, dir, text string, modules ...string) []string {
	t.Helper()
	mod, err := os.ReadFile("../go.mod")
	must(t, err)
	sum, err := os.ReadFile("../go.sum")
	must(t, err)
	var needs strings.Builder
	needs.WriteString("module example\n\ngo 1.26\n")
	for _, module := range modules {
		_, rest, _ := strings.Cut(string(mod), "\t"+module+" ")
		version, _, _ := strings.Cut(rest, "\n")
		fmt.Fprintf(&needs, "require %s %s\n", module, version)
	}
	for name, content := range map[string]string{"main.go": text, "go.mod": needs.String(), "go.sum": string(sum)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", "app", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return []string{filepath.Join(dir, "app")}
}

// TestExamplesOfAppsKeepTheirState runs the programs of the example pages as printed,
// three instances of each behind three nodes. Their counts continue with the next number
// after planned moves and restarts of nodes. They also do after kill -9 of a node and of
// an app, if the program writes before it responds.
func TestExamplesOfAppsKeepTheirState(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, x := range examples() {
		t.Run(x.language, func(t *testing.T) {
			t.Parallel()
			f := startExample(t, x.command(t, t.TempDir(), x.program(t)), "--hooks", "/_shards")
			f.moveAndCrash(t, x.written)
		})
	}
}

// exampleCluster is a cluster in front of an example, with the expected counts.
type exampleCluster struct {
	*cluster.Cluster
	apps   map[string]*exampleApp
	counts map[string]int
}

// exampleApp is one instance of the program.
type exampleApp struct {
	command []string
	env     []string
	addr    string
	state   string // directory shared by all instances
	process *exec.Cmd
	wait    func() error // waits for its end
}

func startExample(t *testing.T, command []string, flags ...string) *exampleCluster {
	t.Helper()
	f := &exampleCluster{
		Cluster: cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: 16, Flags: flags}),
		apps:    map[string]*exampleApp{}, counts: map[string]int{},
	}
	ports, err := cluster.NewPorts()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ports.Close)
	state, err := cluster.Scratch() // in memory, since the speed of a disk is irrelevant here
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	for range 3 {
		port, err := ports.Free()
		if err != nil {
			t.Fatal(err)
		}
		a := &exampleApp{
			command: command, addr: fmt.Sprint("127.0.0.1:", port), state: state,
			env: append(os.Environ(), "STATE="+state, fmt.Sprint("PORT=", port)),
		}
		a.start(t)
		node := f.Prepare(t, "--bootstrap-expect", "3", "--upstream", "http://"+a.addr)
		f.apps[node.ID] = a
	}
	f.AddJoinFlags()
	for _, node := range f.Nodes() {
		node.Start(t)
	}
	f.AwaitServing(t)
	return f
}

func (a *exampleApp) start(t *testing.T) {
	t.Helper()
	a.process = exec.CommandContext(context.WithoutCancel(t.Context()), a.command[0], a.command[1:]...)
	a.process.Env, a.process.Stderr = a.env, os.Stderr
	wait, err := procgroup.Start(a.process)
	if err != nil {
		t.Fatal(err)
	}
	started := a.process
	a.wait = wait
	t.Cleanup(func() {
		_ = started.Process.Kill()
		_ = wait()
	})
	cluster.Await(t, "the app listens", func() error {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", a.addr)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// moveAndCrash moves shards and restarts or kills nodes and apps in all ways.
func (f *exampleCluster) moveAndCrash(t *testing.T, written bool) {
	t.Helper()
	f.count(t)
	node := f.Leader(t)
	node.Stop(t)
	f.count(t)
	node.Start(t)
	f.AwaitServing(t)
	f.count(t)
	node = f.Follower(t)
	if out, code := shardway(t, "drain", node.ID, "--wait", "--admin", node.Admin); code != 0 {
		t.Fatalf("drain %s: exit %d, %s", node.ID, code, out)
	}
	f.count(t)
	if out, code := shardway(t, "uncordon", node.ID, "--admin", node.Admin); code != 0 {
		t.Fatalf("uncordon %s: exit %d, %s", node.ID, code, out)
	}
	f.AwaitServing(t)
	f.count(t)
	if !written {
		return
	}
	node.Kill(t)
	f.count(t)
	node.Start(t)
	f.AwaitServing(t)
	f.count(t)
	a := f.apps[node.ID]
	if err := a.process.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = a.wait() // it was killed
	a.start(t)
	f.count(t)
}

// count increments a counter of each shard through one node, and reads it through
// another.
func (f *exampleCluster) count(t *testing.T) {
	t.Helper()
	for _, key := range load.KeysIn(16, 1, func(int) bool { return true }) {
		f.counts[key]++
		for i, method := range []string{http.MethodPost, http.MethodGet} {
			node := f.Running()[i]
			if got := countOf(t, method, "http://"+node.Addr+"/any", key); got != f.counts[key] {
				t.Fatalf("%s of %s at %s: %d, want %d", method, key, node.ID, got, f.counts[key])
			}
		}
	}
}

func countOf(t *testing.T, method, url, key string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Shard-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	var got struct{ Count int }
	if err != nil || resp.StatusCode != http.StatusOK || json.Unmarshal(body, &got) != nil {
		t.Fatalf("%s of %s: %s, %s, %v", method, key, resp.Status, body, err)
	}
	return got.Count
}
