package demo

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
	"shardway/admin/client"
)

func listenOn(t *testing.T, port int) net.Listener {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr(port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// theDemo is a demo that runs in this process, with children of a behaviour.
type theDemo struct {
	t     *testing.T
	lines *bufio.Scanner
	stop  context.CancelFunc
	ended chan error
	tmp   string
	nodes map[string]int // pid by name, from the welcome
	urls  map[string]string
}

func startDemo(t *testing.T, o Options, as string) *theDemo {
	t.Helper()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	d := &theDemo{t: t, lines: bufio.NewScanner(r), stop: cancel, ended: make(chan error, 1), tmp: t.TempDir(), nodes: map[string]int{}, urls: map[string]string{}}
	t.Setenv("TMPDIR", d.tmp)
	o.Out, o.Program, o.Command, o.Env = w, os.Args[0], "shardway", environ(as)
	go func() {
		err := Run(ctx, o)
		_ = w.Close()
		d.ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		_, _ = io.Copy(io.Discard, r)
	})
	return d
}

// until reads what the demo says up to a line that matches, and returns the
// match.
func (d *theDemo) until(pattern string) []string {
	d.t.Helper()
	re := regexp.MustCompile(pattern)
	var said []string
	for d.lines.Scan() {
		line := d.lines.Text()
		said = append(said, line)
		if m := re.FindStringSubmatch(line); m != nil {
			return m
		}
	}
	d.t.Fatalf("the demo never said %q, but\n%s", pattern, strings.Join(said, "\n"))
	return nil
}

// welcome reads the table of nodes.
func (d *theDemo) welcome() {
	d.t.Helper()
	d.until(`^Three nodes serve`)
	for range nodeCount {
		m := d.until(`^  (n\d) +(\d+) +http://(\S+) +http://\S+/status +http://(\S+) \(pid (\d+)\)$`)
		d.nodes[m[1]], d.nodes[m[1]+"-app"] = number(d.t, m[2]), number(d.t, m[5])
		d.urls[m[1]+"-app"] = "http://" + m[4]
	}
}

// rest reads what the demo says to its end.
func (d *theDemo) rest() {
	for d.lines.Scan() {
		d.t.Logf("said: %s", d.lines.Text())
	}
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// finish stops the demo and checks that nothing of it is left.
func (d *theDemo) finish() {
	d.t.Helper()
	d.stop()
	d.until(`^Stopping`)
	d.rest()
	if err := <-d.ended; err != nil {
		d.t.Errorf("Run = %v, want nil", err)
	}
	d.nothingLeft()
}

func (d *theDemo) nothingLeft() {
	d.t.Helper()
	for name, pid := range d.nodes {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			d.t.Errorf("%s (pid %d) still runs: %v", name, pid, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(d.tmp, "*")); err != nil || len(left) > 0 {
		d.t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDemoStartsHealsAndLeavesNothing(t *testing.T) {
	d := startDemo(t, Options{RestartAfter: 10 * time.Millisecond}, good)
	d.welcome()
	d.until(`^  shardway status`)
	d.until(`^  kill -9 ` + strconv.Itoa(d.nodes["n2"]) + "$") // n2 owns the key
	d.until(`^  kill -9 ` + strconv.Itoa(d.nodes["n2-app"]) + "$")

	if err := syscall.Kill(d.nodes["n3"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.until(`^n3 \(pid ` + strconv.Itoa(d.nodes["n3"]) + `\) was ended by a signal \(killed\): its shards go to the others`)
	d.nodes["n3 again"] = number(t, d.until(`^n3 is back \(pid (\d+)\)`)[1])

	if err := syscall.Kill(d.nodes["n1-app"], syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.until(`^n1-app \(pid \d+\) ended \(exit status 0\): others count on for it`)
	d.nodes["n1-app again"] = number(t, d.until(`^n1-app is back \(pid (\d+)\)`)[1])
	res, err := http.Get(d.urls["n1-app"])
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	d.finish()
}

func TestDemoReportsFailover(t *testing.T) {
	var serve, of int
	d := startDemo(t, Options{RestartAfter: time.Hour, Progress: func(done, all int) { serve, of = done, all }}, good)
	d.welcome() // so what the demo said of its progress is over
	if serve != 2*nodeCount || of != 2*nodeCount {
		t.Errorf("at the end %d of %d processes serve, want all %d", serve, of, 2*nodeCount)
	}
	if err := syscall.Kill(d.nodes["n3"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.until(`^n3: its shards are served again, by the others, \d+m?s after it ended`)
	d.finish()
}

func TestVerboseDemoShowsLogs(t *testing.T) {
	d := startDemo(t, Options{Verbose: true}, good)
	d.until(`^n1-app \| demo app listening`)
	d.until(`^n2     \| n2 listens`)
	d.welcome()
	d.finish()
}

func TestDemoFailsWithTheLastWordsOfANode(t *testing.T) {
	d := startDemo(t, Options{}, broken)
	d.rest()
	err := <-d.ended
	if err == nil || !regexp.MustCompile(`(?s)^demo: n\d ended \(exit status 1\) before it served; its log ends with\nthe disk is full$`).MatchString(err.Error()) {
		t.Errorf("Run = %v, want the node's last words", err)
	}
	d.nothingLeft()
}

func TestDemoGivesUpOnANodeThatNeverServes(t *testing.T) {
	d := startDemo(t, Options{StartTimeout: time.Second}, red)
	d.rest()
	err := <-d.ended
	if err == nil || !strings.HasPrefix(err.Error(), "demo: n1 does not serve after 1s (") {
		t.Errorf("Run = %v, want that n1 does not serve", err)
	}
	d.nothingLeft()
}

func TestDemoKillsWhatDoesNotStop(t *testing.T) {
	d := startDemo(t, Options{StopTimeout: 50 * time.Millisecond}, stubborn)
	d.welcome()
	d.stop()
	d.until(`^Some did not stop within 50ms: killing them`)
	d.rest()
	if err := <-d.ended; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	d.nothingLeft()
}

// TestKilledDemoTakesItsChildrenAlong kills the demo itself, which can stop
// nothing any more: the kernel does.
func TestKilledDemoTakesItsChildrenAlong(t *testing.T) {
	d := &theDemo{t: t, nodes: map[string]int{}, urls: map[string]string{}}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(environ(runner), "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.lines = bufio.NewScanner(out)
	d.welcome()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	d.rest()
	_ = cmd.Wait()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for name, pid := range d.nodes {
		for running(pid) {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatalf("%s (pid %d) outlives the demo", name, pid)
			}
		}
	}
}

// running reports whether a process that is nobody's child here still runs: an
// orphan may stay a zombie where no init reaps it.
func running(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	after := string(b[strings.LastIndexByte(string(b), ')')+1:])
	return !strings.HasPrefix(after, " Z") && !strings.HasPrefix(after, " X")
}

func TestWithoutOwnerWaitsForTheMap(t *testing.T) {
	c := &changing{changed: make(chan struct{})}
	ln := listenOn(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan error, 1)
	s := admin.New(admin.Options{API: apitest.SetOf(c), Log: zerolog.Nop()})
	go func() { served <- s.Serve(ctx, ln) }()
	client, err := client.New(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := waitNotOwner(ctx, client, "n2"); err != nil {
		t.Errorf("withoutOwner = %v", err)
	}
	if !c.waited {
		t.Error("withoutOwner did not wait for a map without the node")
	}
	client.Close()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// changing is a node whose map loses n2 while someone waits for it. It is asked
// by one client, one request after the other.
type changing struct {
	api.Cluster

	changed chan struct{}
	waited  bool
}

func (c *changing) Map() api.Map {
	owners := []int{0, 1}
	if c.waited {
		owners = []int{0, 0}
	}
	return api.Map{Epoch: 5, Shards: 2, Owners: owners, Nodes: []api.MapNode{{ID: "n1"}, {ID: "n2"}}}
}

func (c *changing) WaitMap(context.Context, uint64) { c.waited = true }

func TestRestartIsDueAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &proc{}
		f := &fleet{nodes: []*proc{{}, p}}
		if got := f.timeToRestart(); got != time.Hour {
			t.Errorf("untilRestart with nothing dead = %v, want an hour", got)
		}
		p.restartAt = time.Now().Add(5 * time.Second)
		if got := f.timeToRestart(); got != 5*time.Second {
			t.Errorf("untilRestart = %v, want 5s", got)
		}
	})
}
