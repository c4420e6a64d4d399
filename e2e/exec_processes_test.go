//go:build linux

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardway/diagnosis"
	"shardway/e2e/kit/cluster"
	"shardway/node/childproc"
)

// keyProcessArg is the first argument of the app of TestOneProcessPerKey: this program.
const keyProcessArg = "process-of-a-key"

// serveKeyProcess runs the app if this process is one: a process for one key, which appends a line to a file in
// its directory for each POST. While it runs, it holds a lock in the directory, which all nodes share. It passes the lock
// to a grandchild in another session that ignores SIGTERM, so that the lock is free only when no process is left. Two
// processes of one key at the same time leave a file with the name overlap.
func serveKeyProcess() bool {
	if len(os.Args) == 2 && os.Args[1] == keyProcessArg+"-helper" {
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Hour)
	}
	if len(os.Args) != 5 || os.Args[1] != keyProcessArg {
		return false
	}
	addr, dir, key := os.Args[2], os.Args[3], os.Args[4]
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3) //nolint:forbidigo // this process is the app
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		fail(err)
	}
	if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = os.WriteFile(filepath.Join(dir, "overlap"), fmt.Appendf(nil, "%s at node %s: %v\n", time.Now(), os.Getenv("SHARDWAY_NODE"), err), 0o600)
		fail(err)
	}
	helper := exec.Command("/proc/self/exe", keyProcessArg+"-helper")
	helper.SysProcAttr, helper.ExtraFiles = &syscall.SysProcAttr{Setsid: true}, []*os.File{lock}
	if err = helper.Start(); err != nil {
		fail(err)
	}
	if key != os.Getenv("SHARDWAY_KEY") || os.Getenv("SHARDWAY_SECRET_FILE") != "" {
		fail(fmt.Errorf("environment: %q", os.Environ()))
	}
	file, err := os.OpenFile(filepath.Join(dir, "lines"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fail(err)
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		time.Sleep(20 * time.Millisecond) // to write a cache, for example
		os.Exit(0)                        //nolint:forbidigo // this process is the app
	}()
	var mu sync.Mutex
	fail(http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sent, err := url.PathUnescape(r.Header.Get("Shardway-Key")); err != nil || sent != key || r.Header.Get("Shardway-Epoch") != os.Getenv("SHARDWAY_EPOCH") {
			http.Error(w, "a request of another key or epoch", http.StatusInternalServerError)
			return
		}
		named := r.Header.Get("Belongs-To")
		switch {
		case r.Header.Get("Upgrade") != "":
			echoMessages(w, r)
			return
		case named != "" && named != key:
			w.Header().Set("Shardway-Key", named)
			w.WriteHeader(http.StatusMisdirectedRequest)
			return
		case r.Method != http.MethodPost:
			_, _ = fmt.Fprintf(w, "%d\n", os.Getpid())
			return
		}
		id, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			_, err = fmt.Fprintf(file, "%s\n", id)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})))
	return true
}

// writers posts unique lines for keys through the nodes of a cluster, and remembers those with a response 201.
type writers struct {
	keys         []string
	client       http.Client
	addrs        []string
	acknowledged map[string][]string // by key
	mu           sync.Mutex
	done         sync.WaitGroup
	posted       atomic.Int64
}

func startWriters(ctx context.Context, addrs, keys []string) *writers {
	w := &writers{keys: keys, addrs: addrs, acknowledged: map[string][]string{}, client: http.Client{Timeout: 10 * time.Second}}
	for i, key := range keys {
		w.done.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				id := fmt.Sprintf("%d-%d", i, n)
				if w.post(ctx, w.addr(), key, id) {
					w.mu.Lock()
					w.acknowledged[key] = append(w.acknowledged[key], id)
					w.mu.Unlock()
					w.posted.Add(1)
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	return w
}

// useNodes makes later requests use these nodes.
func (w *writers) useNodes(nodes []*cluster.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addrs = nil
	for _, node := range nodes {
		w.addrs = append(w.addrs, node.Addr)
	}
}

func (w *writers) addr() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.addrs[rand.IntN(len(w.addrs))]
}

func (w *writers) post(ctx context.Context, addr, key, id string) bool {
	req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, "http://"+addr+"/", strings.NewReader(id))
	if err != nil {
		return false
	}
	req.Header.Set("X-Shard-Key", key)
	res, err := w.client.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode == http.StatusCreated
}

// check verifies that no acknowledged line was lost or written twice, and that no two processes of a key overlapped.
func (w *writers) check(t *testing.T, dir string) {
	t.Helper()
	total := 0
	for _, key := range w.keys {
		of := filepath.Join(dir, childproc.KeyDirectory([]byte(key)))
		if overlap, err := os.ReadFile(filepath.Join(of, "overlap")); err == nil {
			t.Errorf("two processes of key %q: %s", key, overlap)
		}
		content, err := os.ReadFile(filepath.Join(of, "lines"))
		if err != nil {
			t.Errorf("key %q: %v", key, err)
		}
		count := map[string]int{}
		for line := range strings.Lines(string(content)) {
			count[strings.TrimSuffix(line, "\n")]++
		}
		for id, n := range count {
			if n > 1 {
				t.Errorf("key %q: line %s was written %d times", key, id, n)
			}
		}
		for _, id := range w.acknowledged[key] {
			if count[id] != 1 {
				t.Errorf("key %q: acknowledged line %s is in the file %d times", key, id, count[id])
			}
		}
		total += len(w.acknowledged[key])
	}
	t.Logf("%d acknowledged lines of %d keys", total, len(w.keys))
}

// awaitProgress waits until each key has received n further lines.
func (w *writers) awaitProgress(t *testing.T, n int) {
	t.Helper()
	before := map[string]int{}
	w.mu.Lock()
	for _, key := range w.keys {
		before[key] = len(w.acknowledged[key])
	}
	w.mu.Unlock()
	cluster.Await(t, "each key is written", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, key := range w.keys {
			if len(w.acknowledged[key]) < before[key]+n {
				return fmt.Errorf("key %q has %d lines, want %d", key, len(w.acknowledged[key]), before[key]+n)
			}
		}
		return nil
	})
}

// startWithProcesses starts a cluster whose nodes start the app themselves, in a directory that all of them share.
func startWithProcesses(t *testing.T, nodes int, flags ...string) (c *cluster.Cluster, dir string) {
	t.Helper()
	dir = t.TempDir()
	return cluster.Start(t, cluster.Options{Binaries: binaries(t), Nodes: nodes, Shards: 32, Flags: append(keyProcessFlags(t, dir), flags...)}), dir
}

// keyProcessFlags returns the flags of a node that starts the app itself, with a directory that all nodes share.
func keyProcessFlags(t *testing.T, dir string) []string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	return []string{"--upstream", "", "--exec", "'" + self + "' " + keyProcessArg + " {addr} {dir} {key}", "--exec-dir", dir}
}

// TestOneProcessPerKey runs one process of the app per key at three nodes while clients write, and drains a node, kills
// and freezes others, and kills processes. No acknowledged line may be lost, and no two processes of a key may run at once.
func TestOneProcessPerKey(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	c, dir := startWithProcesses(t, 3)
	keys := []string{"alice", "Alice", "../../etc", "ü", strings.Repeat("long", 256), "0", "x=1", "{dir}", "%2e%2e"}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var addrs []string
	for _, node := range c.Nodes() {
		addrs = append(addrs, node.Addr)
	}
	w := startWriters(ctx, addrs, keys)
	w.awaitProgress(t, 5)

	a, b, third := c.Node("a"), c.Node("b"), c.Node("c")
	if out, code := shardway(t, "drain", a.ID, "--wait", "--admin", b.Admin); code != 0 {
		t.Errorf("drain: exit %d, %s", code, out)
	}
	if left := processesAt(t, a); len(left) != 0 {
		t.Errorf("processes %v run at the drained node", left)
	}
	w.awaitProgress(t, 5)
	if out, code := shardway(t, "uncordon", a.ID, "--admin", a.Admin); code != 0 {
		t.Errorf("uncordon: exit %d, %s", code, out)
	}
	c.AwaitServing(t)
	w.awaitProgress(t, 5)

	for range 3 { // the app crashes
		for _, node := range c.Running() {
			for _, pid := range processesAt(t, node) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		w.awaitProgress(t, 2)
	}

	pids := processesAt(t, b)
	b.Kill(t)
	cluster.Await(t, "the processes of the killed node have ended", func() error { return runningOf(pids) })
	c.AwaitShards(t, c.Others(b)...)
	w.awaitProgress(t, 5)
	b.Start(t)
	c.AwaitServing(t)
	w.awaitProgress(t, 5)

	pids = processesAt(t, third)
	third.Pause(t)
	w.useNodes(c.Others(third))
	cluster.Await(t, "the processes of the frozen node have ended", func() error { return runningOf(pids) })
	w.awaitProgress(t, 5)
	third.Continue(t)
	c.AwaitServing(t)
	w.useNodes(c.Nodes())
	w.awaitProgress(t, 5)

	stop()
	w.done.Wait()
	w.check(t, dir)
}

// runningOf returns an error while one of the processes runs.
func runningOf(pids []int) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); err == nil {
			return fmt.Errorf("process %d runs", pid)
		}
	}
	return nil
}

// processesAt returns the main processes that a node runs.
func processesAt(t *testing.T, node *cluster.Node) (pids []int) {
	t.Helper()
	out, code := shardway(t, "processes", "--admin", node.Admin)
	if code != 0 {
		t.Fatalf("processes: exit %d, %s", code, out)
	}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		if pid, err := strconv.Atoi(fields[3]); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestFailingProcessConcernsItsKeyOnly starts a command that fails for one key. Its requests get 502 with a problem code, and
// other keys are served.
func TestFailingProcessConcernsItsKeyOnly(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "app.sh")
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\n[ -e '%s/bad-'\"$3\" ] && exit 7\nexec '%s' %s \"$1\" \"$2\" \"$3\"\n", dir, self, keyProcessArg), 0o700); err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Options{Binaries: binaries(t), Nodes: 2, Shards: 8, Flags: []string{
		"--upstream", "", "--exec", "'" + script + "' {addr} {dir} {key}", "--exec-dir", dir, "--exec-max", "1", "--exec-idle", "2s",
	}})
	keys := c.AwaitServing(t).Keys("a", 3) // one node runs all processes
	bad, good, other := keys[0], keys[1], keys[2]
	if err := os.WriteFile(filepath.Join(dir, "bad-"+bad), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(node *cluster.Node, key string) (status int, code string, err error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+node.Addr+"/", nil)
		if err != nil {
			return 0, "", err
		}
		req.Header.Set("X-Shard-Key", key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, "", err
		}
		_ = res.Body.Close()
		return res.StatusCode, res.Header.Get("Shardway-Error"), nil
	}
	for _, node := range c.Nodes() { // one of them forwards
		for range 3 {
			if status, code, err := ask(node, bad); err != nil || status != http.StatusBadGateway || code != "process-failed" {
				t.Errorf("node %s: a key whose process fails gets %d %s, %v", node.ID, status, code, err)
			}
			if status, code, err := ask(node, bad); err != nil || status != http.StatusBadGateway || code != "process-failed" {
				t.Errorf("node %s: the same key gets %d %s, %v", node.ID, status, code, err)
			}
			if status, code, err := ask(node, good); err != nil || status != http.StatusOK {
				t.Errorf("node %s: another key gets %d %s, %v", node.ID, status, code, err)
			}
		}
		diagnosisTest{t, c}.wantFinding(c.Node("a"), diagnosis.ProcessFailing, "processes of the app of node a fail for 1 keys or shards")
		// The limit of one process: the unused one makes room.
		if status, code, err := ask(node, other); err != nil || status != http.StatusOK {
			t.Errorf("node %s: a third key gets %d %s, %v", node.ID, status, code, err)
		}
		if status, code, err := ask(node, "-x"); err != nil || status != http.StatusBadRequest || code != "bad-request" {
			t.Errorf("node %s: a key that looks like an option gets %d %s, %v", node.ID, status, code, err)
		}
	}
	cluster.Await(t, "the unused process is stopped", func() error {
		for _, node := range c.Nodes() {
			if pids := processesAt(t, node); len(pids) > 0 {
				return errors.New("processes run")
			}
		}
		return nil
	})
}
