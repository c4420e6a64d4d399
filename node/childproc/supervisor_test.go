//go:build linux

package childproc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shardway/ack/agent"
	"shardway/internal/execcommand"
	"shardway/internal/procguard"
	"shardway/proxy/procpool"
)

func TestFirstRequestStartsTheProcessOfItsKey(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.ReadyPath = "/ready/{key}-" })
	w.call(agent.HookAcquire, 7, 1, 2)
	if n := len(w.List()); n != 0 {
		t.Fatalf("%d processes before the first request", n)
	}
	var starts sync.WaitGroup
	for range 8 { // together
		starts.Go(func() { w.mustDial(1, "al/ice") })
	}
	starts.Wait()
	w.mustDial(2, "bob")
	list := w.List()
	if len(list) != 2 || list[0].Key != "al/ice" || list[0].State != Ready || list[0].Epoch != 7 || list[1].Key != "bob" || list[0].PID == list[1].PID || list[0].Addr == list[1].Addr {
		t.Fatalf("processes %+v", list)
	}
	if info, err := os.Stat(list[0].Dir); err != nil || info.Mode().Perm() != 0o700 || filepath.Dir(list[0].Dir) != w.options.Dir {
		t.Errorf("directory %s: %v, %v", list[0].Dir, info, err)
	}
	if starts, err := os.ReadFile(filepath.Join(list[0].Dir, "starts")); err != nil || strings.Count(string(starts), "\n") != 1 {
		t.Errorf("starts of one key: %q, %v", starts, err)
	}
	res, err := http.Get("http://" + list[1].Addr + "/environ")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // a test
	environ, _ := io.ReadAll(res.Body)
	for _, want := range []string{"SHARDWAY_KEY=bob", "SHARDWAY_SHARD=2", "SHARDWAY_EPOCH=7", "SHARDWAY_NODE=a", "SHARDWAY_ADDR=" + list[1].Addr, "SHARDWAY_DIR=" + list[1].Dir, "KEPT=1"} {
		if !strings.Contains("\n"+string(environ)+"\n", "\n"+want+"\n") {
			t.Errorf("no %s in the environment", want)
		}
	}
	for _, secret := range []string{"SHARDWAY_SECRET", "shardway_other", "NOTIFY_SOCKET"} {
		if strings.Contains(string(environ), secret) {
			t.Errorf("%s is in the environment", secret)
		}
	}
}

func TestNoProcessRunsForShardThatIsNotAcquired(t *testing.T) {
	w := newWorld(t, nil)
	if err := w.dial(1, "a"); !errors.Is(err, procpool.ErrNotOwned) {
		t.Errorf("before acquire: %v", err)
	}
	w.call(agent.HookAcquire, 7, 1)
	w.mustDial(1, "a")
	pid := w.pid("a")
	w.call(agent.HookRelease, 7, 1)
	if isRunning(pid) {
		t.Error("the process runs after the release")
	}
	if err := w.dial(1, "a"); !errors.Is(err, procpool.ErrNotOwned) {
		t.Errorf("after release: %v", err)
	}
}

// A release that begins while a process starts also ends that process.
func TestReleaseEndsProcessThatStarts(t *testing.T) {
	w := newWorld(t, nil)
	w.setMode("silent")
	w.call(agent.HookAcquire, 7, 1)
	result := make(chan error, 1)
	go func() { result <- w.dial(1, "a") }()
	await(t, "a process starts", func() bool { return w.pid("a") != 0 })
	pid := w.pid("a")
	w.call(agent.HookLost, 7, 1)
	if isRunning(pid) {
		t.Error("the process runs after its shard was lost")
	}
	if err := <-result; !errors.Is(err, procpool.ErrNotOwned) {
		t.Errorf("error %v", err)
	}
}

// The release waits for the end of a process that ignores SIGTERM. A cancelled release kills it at once.
func TestReleaseWaitsForSigkill(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.ReleaseTimeout = 500 * time.Millisecond })
	w.setMode("deaf")
	w.call(agent.HookAcquire, 7, 1)
	w.mustDial(1, "a")
	pid, began := w.pid("a"), time.Now()
	w.call(agent.HookRelease, 7, 1)
	if took := time.Since(began); isRunning(pid) || took < 300*time.Millisecond {
		t.Errorf("after %v, the process runs: %v", took, isRunning(pid))
	}
	if w.Counts().Killed != 1 {
		t.Errorf("counts %+v", w.Counts())
	}

	w.options.ReleaseTimeout = time.Hour
	w.call(agent.HookAcquire, 8, 1)
	w.mustDial(1, "a")
	pid = w.pid("a")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	w.callWith(ctx, agent.HookRelease, 8, 1)
	if isRunning(pid) {
		t.Error("the process runs after a cancelled release")
	}
}

// A release call whose timeout has passed still waits: the shard must not move while the process runs.
func TestReleaseDoesNotReturnBeforeTheEnd(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.ReleaseTimeout = 600 * time.Millisecond })
	w.setMode("deaf")
	w.call(agent.HookAcquire, 7, 1)
	w.mustDial(1, "a")
	pid := w.pid("a")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	w.callWith(ctx, agent.HookRelease, 7, 1)
	if isRunning(pid) {
		t.Error("the process runs after the release call")
	}
}

// An acquire call with another epoch ends the processes of the earlier one: another node may have owned the shard.
func TestNewEpochStartsNewProcess(t *testing.T) {
	w := newWorld(t, nil)
	w.call(agent.HookAcquire, 7, 1)
	w.mustDial(1, "a")
	pid := w.pid("a")
	w.call(agent.HookAcquire, 7, 1)
	if w.mustDial(1, "a"); w.pid("a") != pid {
		t.Error("a repeated acquire call has ended the process")
	}
	w.call(agent.HookAcquire, 9, 1)
	if isRunning(pid) {
		t.Error("the process of the earlier epoch runs")
	}
	if w.mustDial(1, "a"); w.List()[0].Epoch != 9 {
		t.Errorf("processes %+v", w.List())
	}
}

func TestCrashedProcessIsStartedAgain(t *testing.T) {
	w := newWorld(t, nil)
	w.call(agent.HookAcquire, 7, 1)
	w.mustDial(1, "a")
	pid := w.pid("a")
	_ = syscall.Kill(pid, syscall.SIGKILL)
	await(t, "the end is noticed", func() bool { return w.Counts().Failed == 1 })
	if w.mustDial(1, "a"); w.pid("a") == pid {
		t.Error("the same process")
	}
}

// A process that crashes at each start gets a pause, which does not concern other keys.
func TestFailingProcessPauses(t *testing.T) {
	w := newWorld(t, nil)
	w.setMode("crash-bad-")
	w.call(agent.HookAcquire, 7, 1)
	var startError *procpool.StartError
	if err := w.dial(1, "bad"); !errors.As(err, &startError) || !strings.Contains(startError.Reason, "exit status 7") || startError.RetryAfter <= 0 {
		t.Fatalf("error %v", err)
	}
	w.mustDial(1, "good")
	began := time.Now()
	if err := w.dial(1, "bad"); !errors.As(err, &startError) || time.Since(began) > time.Second {
		t.Errorf("during the pause: %v after %v", err, time.Since(began))
	}
	if f := w.Failures(); len(f) != 1 || f[0].Key != "bad" || f[0].Count < 2 {
		t.Errorf("failures %+v", f)
	}
	if len(w.fails) < 2 {
		t.Errorf("reported failures %+v", w.fails)
	}
	w.setMode("")
	await(t, "the process starts", func() bool { return w.dial(1, "bad") == nil })
	if f := w.Failures(); len(f) != 0 {
		t.Errorf("failures %+v", f)
	}
}

func TestProcessThatIsNotReadyIsKilled(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.StartTimeout = 300 * time.Millisecond })
	w.setMode("silent")
	w.call(agent.HookAcquire, 7, 1)
	var startError *procpool.StartError
	if err := w.dial(1, "a"); !errors.As(err, &startError) || !strings.Contains(startError.Reason, "not ready within") {
		t.Errorf("error %v", err)
	}
	await(t, "no process", func() bool { return len(w.List()) == 0 })
}

func TestMissingProgramIsReported(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Command, _ = execcommand.ParseCommand("no-such-program") })
	w.call(agent.HookAcquire, 7, 1)
	var startError *procpool.StartError
	if err := w.dial(1, "a"); !errors.As(err, &startError) || !strings.Contains(startError.Reason, "no-such-program") {
		t.Errorf("error %v", err)
	}
}

func TestLimitStopsUnusedProcess(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Max = 2 })
	w.call(agent.HookAcquire, 7, 1)
	w.usage.use("a", true)
	w.mustDial(1, "a")
	w.mustDial(1, "b")
	w.mustDial(1, "c") // takes the place of b
	if w.pid("a") == 0 || w.pid("b") != 0 || w.pid("c") == 0 {
		t.Errorf("processes %+v", w.List())
	}
	w.usage.use("c", true)
	if err := w.dial(1, "d"); !errors.Is(err, procpool.ErrLimit) {
		t.Errorf("error %v", err)
	}
	if w.Counts().Refused == 0 {
		t.Errorf("counts %+v", w.Counts())
	}
}

func TestUnusedProcessIsStopped(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Idle = 300 * time.Millisecond })
	w.call(agent.HookAcquire, 7, 1)
	w.usage.use("used", true)
	w.mustDial(1, "used")
	w.mustDial(1, "unused")
	await(t, "one process", func() bool { return w.pid("unused") == 0 })
	time.Sleep(500 * time.Millisecond)
	if w.pid("used") == 0 {
		t.Error("a process in use was stopped")
	}
	if w.Counts().Failed != 0 || w.Counts().IdleStops != 1 {
		t.Errorf("counts %+v", w.Counts())
	}
}

// Without a lease, the processes end in time and none starts. Their end is no failure of the app.
func TestProcessesEndWithoutLease(t *testing.T) {
	w := newWorld(t, nil)
	w.setMode("deaf")
	w.call(agent.HookAcquire, 7, 1)
	w.mustDial(1, "a")
	pid := w.pid("a")
	if pid == 0 {
		t.Fatal("the process has no id")
	}
	w.endLease(200 * time.Millisecond)
	// The main thread of a killed process may end before its sockets are closed.
	await(t, "end", func() bool { return !isRunning(pid) && w.pid("a") == 0 })
	if err := w.dial(1, "a"); !errors.Is(err, procpool.ErrNotOwned) {
		t.Errorf("error %v", err)
	}
	if w.Counts().Failed != 0 {
		t.Errorf("counts %+v", w.Counts())
	}
	w.mu.Lock()
	w.lease, w.end = time.Hour, 0
	w.mu.Unlock()
	w.mustDial(1, "a")
}

func TestAcquireStartsProcessOfShard(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Per = PerShard
		o.Command, _ = execcommand.ParseCommand("/proc/self/exe test-app {addr} {dir} {shard}")
	})
	if result := w.call(agent.HookAcquire, 7, 1, 2); len(result.Failed) != 0 || result.Err != nil {
		t.Fatalf("result %+v", result)
	}
	list := w.List()
	if len(list) != 2 || list[0].State != Ready || filepath.Base(list[1].Dir) != "shard-2" {
		t.Fatalf("processes %+v", list)
	}
	_ = syscall.Kill(list[0].PID, syscall.SIGKILL) // it starts again without a request
	await(t, "restart", func() bool {
		list := w.List()
		return len(list) == 2 && w.Counts().Started == 3 && list[0].State == Ready
	})
	w.call(agent.HookRelease, 7, 1, 2)
	if len(w.List()) != 0 {
		t.Errorf("processes %+v", w.List())
	}
	w.setMode("crash")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if result := w.callWith(ctx, agent.HookAcquire, 8, 1); !strings.Contains(result.Failed[1], "exit status 7") {
		t.Errorf("result %+v", result)
	}
}

// A program that has taken the port of a process gets no request.
func TestListenerOfAnotherProgramIsNotUsed(t *testing.T) {
	ln := listenElsewhere(t, "127.0.0.1:0")
	addr := netip.MustParseAddrPort(ln.Addr().String())
	w := newWorld(t, nil)
	w.setMode("silent")
	w.call(agent.HookAcquire, 7, 1)
	go func() { _ = w.dial(1, "a") }()
	await(t, "a process starts", func() bool { return w.pid("a") != 0 })
	if owner := procguard.ListenerOwner(w.pid("a"), addr.Port()); owner != procguard.ListenerForeign {
		t.Errorf("owner %d", owner)
	}
	foreign := &process{pid: w.pid("a"), addr: addr, ready: make(chan struct{}), ended: make(chan struct{})}
	if err := w.checkReady(t.Context(), foreign, nil); !errors.Is(err, errForeignListener) {
		t.Errorf("error %v", err)
	}
	if owner := procguard.ListenerOwner(os.Getpid(), addr.Port()); owner != procguard.ListenerOwn {
		t.Errorf("own listener: %d", owner)
	}
	if owner := procguard.ListenerOwner(os.Getpid(), 1); owner != procguard.ListenerUnknown {
		t.Errorf("no listener: %d", owner)
	}
}

func TestDirectoryNamesDiffer(t *testing.T) {
	seen := map[string]string{}
	keys := []string{"a", "A", "a/", "../a", "..", ".", "", "a\x00", "a\n", "-x", "con", "CON", strings.Repeat("a", 4096), strings.Repeat("a", 4095), "shard-1", "é", "%2e"}
	for _, key := range keys {
		name := KeyDirectory([]byte(key))
		if other, ok := seen[name]; ok {
			t.Errorf("%q and %q have the directory %s", key, other, name)
		}
		seen[name] = key
		checkDirectoryName(t, name)
	}
	if name := directoryName(procpool.Target{Shard: 1}); name != "shard-1" {
		t.Error(name)
	}
	if name := KeyDirectory([]byte("Alice")); name != "key-alice-"+strings.TrimPrefix(name, "key-alice-") || len(name) != len("key-alice-")+26 {
		t.Error(name)
	}
}

func checkDirectoryName(t *testing.T, name string) {
	t.Helper()
	valid := strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
	if !valid || len(name) > 100 || !strings.HasPrefix(name, "key-") {
		t.Errorf("directory name %q", name)
	}
}

func FuzzKeyDirectory(f *testing.F) {
	for _, key := range []string{"alice", "../x", "A/b", "\x00", "-"} {
		f.Add([]byte(key), []byte(key+"x"))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		nameA, nameB := KeyDirectory(a), KeyDirectory(b)
		checkDirectoryName(t, nameA)
		if (nameA == nameB) != (string(a) == string(b)) {
			t.Errorf("%q and %q: %s and %s", a, b, nameA, nameB)
		}
	})
}

// A symbolic link in the place of a directory could lead to the directory of another key.
func TestSymbolicLinkIsNoDirectory(t *testing.T) {
	base := t.TempDir()
	target := procpool.Target{Shard: 1, Key: "a"}
	if err := os.Symlink(t.TempDir(), filepath.Join(base, directoryName(target))); err != nil {
		t.Fatal(err)
	}
	if dir, err := makeDirectory(base, target); err == nil {
		t.Errorf("directory %s", dir)
	}
}

func TestPauseGrowsUpToItsMaximum(t *testing.T) {
	last := time.Duration(-1)
	for count := range 100 {
		pause := pauseAfter(count)
		if pause < last || pause > maxPause {
			t.Fatalf("after %d failures: %v", count, pause)
		}
		last = pause
	}
	if pauseAfter(1) != 0 || pauseAfter(2) != minPause || last != maxPause {
		t.Errorf("pauses %v, %v, %v", pauseAfter(1), pauseAfter(2), last)
	}
}
