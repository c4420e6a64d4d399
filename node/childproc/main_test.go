//go:build linux

package childproc

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack/agent"
	"shardway/internal/execcommand"
	"shardway/internal/overlay"
	"shardway/internal/procguard"
	"shardway/proxy/procpool"
	"shardway/shardmap"
)

// waitLimit is the longest wait for a condition. It is short in a test that must find a mistake.
var waitLimit = 20 * time.Second

func TestMain(m *testing.M) {
	if procguard.IsGuard() {
		os.Exit(procguard.Main()) //nolint:forbidigo // TestMain is the main of the guard
	}
	if len(os.Args) > 4 && os.Args[1] == "test-app" {
		os.Exit(runTestApp(os.Args[2], os.Args[3], os.Args[4])) //nolint:forbidigo // TestMain is the main of the app
	}
	if os.Getenv(overlay.Switch) != "" {
		waitLimit = 5 * time.Second
	}
	m.Run()
}

// runTestApp is the app of these tests. mode-KEY in the directory above dir determines what it does.
func runTestApp(addr, dir, key string) int {
	starts, _ := os.OpenFile(filepath.Join(dir, "starts"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	_, _ = fmt.Fprintf(starts, "%d\n", os.Getpid())
	mode, _ := os.ReadFile(filepath.Join(filepath.Dir(dir), "mode"))
	switch string(mode) {
	case "crash":
		return 7
	case "crash-" + key:
		return 7
	case "silent": // never listens
		time.Sleep(time.Hour)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	}
	began := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("/ready/", func(w http.ResponseWriter, r *http.Request) {
		if time.Since(began) < 100*time.Millisecond || r.URL.Path != "/ready/"+key {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/environ", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, strings.Join(os.Environ(), "\n")) })
	err := http.ListenAndServe(addr, mux)
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// testUsage is a Usage in which the test marks targets as used.
type testUsage struct {
	mu   sync.Mutex
	used map[string]bool
}

func (u *testUsage) use(key string, used bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.used[key] = used
}

func (u *testUsage) Idle(target procpool.Target) (time.Duration, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return 0, u.used[target.Key]
}

func (u *testUsage) CloseIfIdle(target procpool.Target, _ time.Duration) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.used[target.Key]
}

func (u *testUsage) Close(procpool.Target) {}

type world struct {
	*Supervisor
	t     *testing.T
	dir   string
	usage testUsage
	mu    sync.Mutex
	lease time.Duration // remaining time of the lease, and as much again until SIGKILL
	end   time.Duration // of the lease; zero means that it is always extended
	fails []Failure
}

func newWorld(t *testing.T, change func(*Options)) *world {
	t.Helper()
	dir := t.TempDir()
	command, err := execcommand.ParseCommand("/proc/self/exe test-app {addr} {dir} {key}-")
	if err != nil {
		t.Fatal(err)
	}
	options := Options{
		Command: command, Per: PerKey, Dir: filepath.Join(dir, "exec"), Max: 100, StartTimeout: 10 * time.Second, ReleaseTimeout: 10 * time.Second,
		LockFile: filepath.Join(dir, "lock"), Environ: append(os.Environ(), "SHARDWAY_SECRET=x", "shardway_other=x", "NOTIFY_SOCKET=x", "KEPT=1"), Node: "a", Log: zerolog.Nop(),
	}
	if change != nil {
		change(&options)
	}
	w := &world{Supervisor: New(options), t: t, dir: dir, usage: testUsage{used: map[string]bool{}}, lease: time.Hour}
	w.Attach(Owner{Usage: &w.usage, Deadline: w.deadline, HashKey: func(string) string { return "hash" }, Fail: func(err error) { t.Log(err) }, OnFailure: func(f Failure) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.fails = append(w.fails, f)
	}})
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func (w *world) deadline() (term, kill time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	end := w.end
	if end == 0 {
		end = procguard.Boottime() + w.lease
	}
	return end, end + w.lease, true
}

// endLease lets the lease end after d.
func (w *world) endLease(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lease, w.end = d, procguard.Boottime()+d
	_ = w.guard.SetDeadline(w.end, w.end+d)
}

func (w *world) setMode(mode string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.options.Dir, "mode"), []byte(mode), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) call(kind agent.HookKind, epoch shardmap.Epoch, shards ...shardmap.Shard) agent.HookResult {
	w.t.Helper()
	return w.callWith(w.t.Context(), kind, epoch, shards...)
}

func (w *world) callWith(ctx context.Context, kind agent.HookKind, epoch shardmap.Epoch, shards ...shardmap.Shard) agent.HookResult {
	w.t.Helper()
	call := agent.HookCall{Kind: kind}
	for _, shard := range shards {
		call.Shards = append(call.Shards, agent.HookShard{Shard: shard, Epoch: epoch})
	}
	result := make(chan agent.HookResult, 1)
	go func() { result <- w.Do(ctx, call) }()
	select {
	case r := <-result:
		return r
	case <-time.After(waitLimit):
		w.t.Fatalf("%v of shards %v takes longer than %v", kind, shards, waitLimit)
		return agent.HookResult{}
	}
}

func (w *world) dial(shard shardmap.Shard, key string) error {
	conn, _, err := w.Dial(w.t.Context(), w.TargetOf(shard, []byte(key)))
	if err == nil {
		_ = conn.Close()
	}
	return err
}

func (w *world) mustDial(shard shardmap.Shard, key string) {
	w.t.Helper()
	if err := w.dial(shard, key); err != nil {
		w.t.Fatalf("key %q: %v", key, err)
	}
}

// pid returns the process of a key, or 0.
func (w *world) pid(key string) int {
	for _, info := range w.List() {
		if info.Key == key {
			return info.PID
		}
	}
	return 0
}

func isRunning(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(waitLimit); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", waitLimit, what)
		}
	}
}

// listenElsewhere takes a port, as another program does.
func listenElsewhere(t *testing.T, addr string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}
