package procguard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shardway/internal/overlay"
)

// waitLimit is the longest wait for a condition. It is short in a test that must find a mistake.
var waitLimit = 20 * time.Second

func TestMain(m *testing.M) {
	if IsGuard() {
		os.Exit(Main()) //nolint:forbidigo // TestMain is the main of the guard
	}
	if mode := os.Getenv("TEST_CHILD"); mode != "" {
		os.Exit(runTestChild(mode)) //nolint:forbidigo // TestMain is the main of the child
	}
	if os.Getenv(overlay.Switch) != "" {
		waitLimit = 5 * time.Second
	}
	m.Run()
}

// runTestChild is the program of the children in these tests.
func runTestChild(mode string) int {
	hang := func() int { time.Sleep(time.Hour); return 0 }
	again := func(next string, session bool, env ...string) {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(env, "TEST_CHILD="+next, "TEST_PIDS="+os.Getenv("TEST_PIDS"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
	}
	record := func() { // for the test: the ids of the processes
		file, err := os.OpenFile(os.Getenv("TEST_PIDS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintln(file, os.Getpid())
		}
		if err != nil {
			panic(err)
		}
	}
	switch mode {
	case "exit":
		_, _ = fmt.Fprintln(os.Stdout, "to stdout")
		fmt.Fprintln(os.Stderr, "to stderr")
		return 3
	case "hang":
		record()
		return hang()
	case "deaf": // does not end on SIGTERM
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM)
		record()
		return hang()
	case "family": // a grandchild in the session, one in another session, and one in another session without a token
		token := TokenVariable + "=" + os.Getenv(TokenVariable)
		again("deaf", false)
		again("fork", true, token)
		again("fork", true)
		record()
		return hang()
	case "fork": // a daemon: its parent ends
		again("deaf", true, TokenVariable+"="+os.Getenv(TokenVariable))
		return 0
	case "noise":
		for range 200_000 {
			_, _ = fmt.Fprintln(os.Stdout, "noise")
		}
		record()
		return hang()
	case "node": // a node with its guard and one family, for the tests that kill it
		client, err := Start(context.Background(), os.Getenv("TEST_LOCK"), nil, Events{
			Started: func(uint64, int) {}, Failed: func(_ uint64, why string) { panic(why) }, Ended: func(uint64, string) {}, Output: func(uint64, string, string, uint64) {},
		})
		if err != nil {
			panic(err)
		}
		_ = client.SetDeadline(Boottime()+time.Hour, Boottime()+time.Hour)
		_ = client.StartChild(1, testSpec("family", os.Getenv("TEST_PIDS")))
		_, _ = fmt.Fprintln(os.Stdout, client.process.Process.Pid)
		return hang()
	}
	panic(mode)
}

func testSpec(mode, pids string) *Spec {
	return &Spec{Args: [][]byte{[]byte("/proc/self/exe"), []byte("-x")}, Env: [][]byte{[]byte("TEST_CHILD=" + mode), []byte("TEST_PIDS=" + pids)}}
}

// testGuard is a guard whose events a test waits for.
type testGuard struct {
	*Client
	t    *testing.T
	pids string // file with the ids of the processes of its children

	mu     sync.Mutex
	events []string
}

func startGuard(t *testing.T) *testGuard {
	t.Helper()
	dir := t.TempDir()
	g := &testGuard{t: t, pids: filepath.Join(dir, "pids")}
	add := func(format string, args ...any) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.events = append(g.events, fmt.Sprintf(format, args...))
	}
	var err error
	g.Client, err = Start(t.Context(), filepath.Join(dir, "lock"), nil, Events{
		Started:    func(id uint64, _ int) { add("started %d", id) },
		Failed:     func(id uint64, why string) { add("failed %d %s", id, why) },
		Ended:      func(id uint64, status string) { add("ended %d %s", id, status) },
		Output:     func(id uint64, stream, line string, _ uint64) { add("%d %s %s", id, stream, line) },
		GuardEnded: func(error) { add("guard ended") },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			killAll(g.pids, g.process.Process.Pid)
		}
		g.Close()
	})
	g.extend(time.Hour)
	return g
}

func (g *testGuard) extend(by time.Duration) {
	g.t.Helper()
	if err := g.SetDeadline(Boottime()+by, Boottime()+by+time.Second); err != nil {
		g.t.Fatal(err)
	}
}

func (g *testGuard) start(id uint64, mode string) {
	g.t.Helper()
	if err := g.StartChild(id, testSpec(mode, g.pids)); err != nil {
		g.t.Fatal(err)
	}
	g.await(fmt.Sprintf("started %d", id))
}

func (g *testGuard) has(event string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.events {
		if strings.HasPrefix(e, event) {
			return true
		}
	}
	return false
}

func (g *testGuard) await(event string) {
	g.t.Helper()
	await(g.t, event, func() bool { return g.has(event) })
}

func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(waitLimit); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", waitLimit, what)
		}
	}
}

// readPIDs returns the processes in a file that run.
func readPIDs(path string) (all int, running []int) {
	content, _ := os.ReadFile(path)
	for line := range strings.Lines(string(content)) {
		pid, _ := strconv.Atoi(strings.TrimSpace(line))
		all++
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, alive := parseStat(stat); err == nil && alive {
			running = append(running, pid)
		}
	}
	return all, running
}

// killAll kills a guard and its processes, which a mistake can leave behind.
func killAll(pids string, guard int) {
	if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", guard)); err == nil && strings.HasPrefix(string(state), guardName) {
		_ = syscall.Kill(guard, syscall.SIGKILL)
	}
	_, running := readPIDs(pids)
	for _, pid := range running {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func (g *testGuard) awaitProcesses(n int) {
	g.t.Helper()
	awaitProcesses(g.t, g.pids, n)
}

func awaitProcesses(t *testing.T, pids string, n int) {
	t.Helper()
	await(t, fmt.Sprintf("%d processes", n), func() bool { all, _ := readPIDs(pids); return all >= n })
}

func TestGuardReportsOutputAndExitStatus(t *testing.T) {
	g := startGuard(t)
	g.start(1, "exit")
	g.await("ended 1 exit status 3")
	g.await("1 stdout to stdout")
	g.await("1 stderr to stderr")
}

func TestGuardReportsProgramThatCannotBeStarted(t *testing.T) {
	g := startGuard(t)
	for id, program := range map[uint64]string{1: "/no/such/program", 2: "no-such-program", 3: "/etc/passwd"} {
		if err := g.StartChild(id, &Spec{Args: [][]byte{[]byte(program)}, Env: [][]byte{[]byte("PATH=/bin")}}); err != nil {
			t.Fatal(err)
		}
		g.await(fmt.Sprintf("failed %d ", id))
	}
}

func TestStopSendsTermAndThenKill(t *testing.T) {
	g := startGuard(t)
	g.start(1, "hang")
	g.awaitProcesses(1)
	if err := g.StopChild(1, time.Hour); err != nil {
		t.Fatal(err)
	}
	g.await("ended 1 signal: terminated")
	g.start(2, "deaf")
	g.awaitProcesses(2)
	if err := g.StopChild(2, 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	g.await("ended 2 signal: killed")
}

// The end is reported when no process of the child is left, and processes of other children continue.
func TestChildEndsWithItsGrandchildren(t *testing.T) {
	g := startGuard(t)
	g.start(1, "hang")
	g.awaitProcesses(1)
	_, other := readPIDs(g.pids)
	g.start(2, "family")
	g.awaitProcesses(5)
	if err := g.StopChild(2, 300*time.Millisecond); err != nil { // the grandchildren ignore SIGTERM
		t.Fatal(err)
	}
	g.await("ended 2")
	if _, left := readPIDs(g.pids); len(left) != 1 || left[0] != other[0] {
		t.Errorf("processes %v run, want %v", left, other)
	}
}

// A main process that ends by itself takes its grandchildren with it.
func TestGrandchildrenEndAfterCrash(t *testing.T) {
	g := startGuard(t)
	g.start(1, "family")
	g.awaitProcesses(4)
	_, running := readPIDs(g.pids)
	for _, pid := range running {
		if session, _ := syscall.Getpgid(pid); session == pid { // one of the leaders is the main process
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if entry, _ := parseStat(stat); entry.parent == g.process.Process.Pid && !strings.Contains(environOf(pid), "TEST_CHILD=deaf") {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	g.await("ended 1 signal: killed")
	if _, left := readPIDs(g.pids); len(left) > 0 {
		t.Errorf("processes %v run", left)
	}
}

// Processes that start their successor and end at once can be missing in one reading of /proc.
func TestChainOfProcessesEndsBeforeTheChild(t *testing.T) {
	for range 5 {
		g := startGuard(t)
		// Each process of the chain is in a session without a token. The last one does not end by itself.
		chain := `next() { if [ "$1" -gt 0 ]; then ( next $(($1 - 1)) & ); else exec sleep 300; fi; }; next 400`
		spec := &Spec{Args: [][]byte{[]byte("/usr/bin/env"), []byte("-u"), []byte(TokenVariable), []byte("/usr/bin/setsid"), []byte("/bin/sh"), []byte("-c"), []byte(chain)}, Env: [][]byte{[]byte("CHAIN=" + g.pids)}}
		if err := g.StartChild(1, spec); err != nil {
			t.Fatal(err)
		}
		g.await("ended 1")
		for range 50 {
			for _, pid := range pidsWithEnviron("CHAIN=" + g.pids) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				t.Errorf("process %d runs", pid)
			}
		}
	}
}

// pidsWithEnviron returns the processes whose environment contains a variable.
func pidsWithEnviron(variable string) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		if pid, _ := strconv.Atoi(filepath.Base(name)); strings.Contains(environOf(pid), variable) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func environOf(pid int) string {
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return string(environ)
}

func TestChildrenEndAtTheDeadline(t *testing.T) {
	g := startGuard(t)
	g.start(1, "hang")
	g.start(2, "family")
	g.awaitProcesses(5)
	g.extend(300 * time.Millisecond)
	g.await("ended 1 signal: terminated")
	g.await("ended 2")
	if _, left := readPIDs(g.pids); len(left) > 0 {
		t.Errorf("processes %v run", left)
	}
	if err := g.StartChild(3, testSpec("hang", g.pids)); err != nil {
		t.Fatal(err)
	}
	g.await("failed 3 the node has no lease")
	g.extend(time.Hour)
	g.start(4, "hang")
}

// A guard without a first deadline starts nothing.
func TestNothingStartsBeforeTheFirstLease(t *testing.T) {
	g := &guard{children: map[uint64]*child{}}
	if _, _, err := g.spawn(1, testSpec("hang", "")); err == nil || !strings.Contains(err.Error(), "no lease") {
		t.Errorf("error %v", err)
	}
}

// node starts a process like a node, and returns it with the id of its guard.
func node(t *testing.T, lock, pids string) (process *exec.Cmd, guard int) {
	t.Helper()
	process = exec.Command("/proc/self/exe")
	process.Env = []string{overlay.Switch + "=" + os.Getenv(overlay.Switch), "TEST_CHILD=node", "TEST_LOCK=" + lock, "TEST_PIDS=" + pids}
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	if _, err := fmt.Fscan(bufio.NewReader(out), &guard); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killAll(pids, guard) })
	awaitProcesses(t, pids, 4)
	return process, guard
}

func TestChildrenEndWhenTheNodeIsKilled(t *testing.T) {
	dir := t.TempDir()
	lock, pids := filepath.Join(dir, "lock"), filepath.Join(dir, "pids")
	process, _ := node(t, lock, pids)
	_ = process.Process.Kill()
	// The next guard waits for the lock, so no process is left when it is ready.
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	next, err := Start(ctx, lock, nil, Events{})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if _, left := readPIDs(pids); len(left) > 0 {
		t.Errorf("processes %v run", left)
	}
}

func TestMainProcessesEndWhenTheGuardIsKilled(t *testing.T) {
	g := startGuard(t)
	g.start(1, "deaf")
	g.start(2, "hang")
	g.awaitProcesses(2)
	_ = g.process.Process.Kill()
	g.await("guard ended")
	await(t, "end of the children", func() bool { _, left := readPIDs(g.pids); return len(left) == 0 })
	if err := g.StartChild(3, testSpec("hang", g.pids)); !errors.Is(err, ErrGuardEnded) {
		// The pipe may accept one more command before it breaks.
		await(t, "an error", func() bool { return errors.Is(g.StartChild(4, testSpec("hang", g.pids)), ErrGuardEnded) })
	}
}

// Signals to the process group of a terminal or of a service do not end the guard.
func TestGuardSurvivesTerm(t *testing.T) {
	g := startGuard(t)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		_ = syscall.Kill(g.process.Process.Pid, s)
	}
	g.start(1, "hang")
	g.awaitProcesses(1)
	if err := g.StopChild(1, time.Hour); err != nil { // the child does not inherit ignored signals
		t.Fatal(err)
	}
	g.await("ended 1 signal: terminated")
}

func TestSecondGuardWaitsForTheLock(t *testing.T) {
	g := startGuard(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lock := filepath.Join(filepath.Dir(g.pids), "lock")
	result := make(chan error, 1)
	go func() {
		second, err := Start(ctx, lock, nil, Events{})
		if err == nil {
			second.Close()
		}
		result <- err
	}()
	await(t, "attempt of the second guard", func() bool { return len(openers(lock)) == 2 || len(result) == 1 })
	time.AfterFunc(500*time.Millisecond, cancel)
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	g.Close()
	second, err := Start(t.Context(), lock, nil, Events{})
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}

// openers returns the directories in /proc of the processes that have the file open.
func openers(path string) []string {
	var processes []string
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, descriptor := range descriptors {
		if target, err := os.Readlink(descriptor); err == nil && target == path {
			processes = append(processes, filepath.Dir(descriptor))
		}
	}
	return processes
}

// A frozen node does not read events. Its children can still write, and end at the deadline.
func TestOutputDoesNotBlockTheGuard(t *testing.T) {
	dir := t.TempDir()
	pids := filepath.Join(dir, "pids")
	block := make(chan struct{})
	c, err := Start(t.Context(), filepath.Join(dir, "lock"), nil, Events{
		Started: func(uint64, int) {}, Ended: func(uint64, string) {}, Failed: func(uint64, string) {}, Output: func(uint64, string, string, uint64) { <-block },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	defer close(block)
	_ = c.SetDeadline(Boottime()+waitLimit, Boottime()+waitLimit)
	_ = c.StartChild(1, testSpec("noise", pids))
	awaitProcesses(t, pids, 1)
	_ = c.SetDeadline(Boottime(), Boottime())
	await(t, "end of the child", func() bool { _, left := readPIDs(pids); return len(left) == 0 })
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (a) b) S 3 4 5 0"))
	f.Add([]byte("12 (a) Z 3 4 5"))
	f.Add([]byte("12 () R x"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if entry, ok := parseStat(content); ok && entry.pid == 0 && !strings.HasPrefix(string(content), "0") && !strings.ContainsAny(string(content[:1]), "+-") {
			t.Errorf("%q: %+v", content, entry)
		}
	})
}
