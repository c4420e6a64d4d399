package cli_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/internal/cli"
	"shardway/internal/freeport"
)

// TestMain runs more tests at the same time than there are processors, because nodes wait most of the
// time.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	m.Run()
}

// output is a buffer that a running command may write to.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// node is a run command in this process.
type node struct {
	listen, admin, probes string
	args                  []string
	environ               []string
	log                   output
	stop                  context.CancelFunc
	ended                 chan int // receives the exit code
}

// start runs a single-node cluster in front of the app at upstream.
func start(t *testing.T, upstream string, more ...string) *node {
	t.Helper()
	ports := freeport.Addrs(t, 5)
	n := &node{listen: ports[0], admin: ports[1], probes: ports[2], ended: make(chan int, 1)}
	n.args = append([]string{
		"run", "--node=solo", "--data=" + filepath.Join(t.TempDir(), "data"), "--upstream=" + upstream, "--shards=16", "--log-format=json",
		"--listen=" + n.listen, "--admin=" + n.admin, "--probes=" + n.probes, "--gossip=" + ports[3], "--peer=" + ports[4],
	}, more...)
	n.launch(t)
	return n
}

// launch starts the command, also after it has ended.
func (n *node) launch(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	n.stop = stop
	go func() { n.ended <- cli.Run(ctx, n.args, n.environ, io.Discard, &n.log) }()
	t.Cleanup(stop)
}

// get requests a URL until the response has the wanted status, and returns the body.
func (n *node) get(t *testing.T, url string, status int) string {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	var last string
	for {
		if body, code, err := fetch(t.Context(), url); err != nil {
			last = err.Error()
		} else if code == status {
			return body
		} else {
			last = fmt.Sprint(code, " ", body)
		}
		select {
		case <-again.C:
		case code := <-n.ended:
			t.Fatalf("the node ended with %d:\n%s", code, n.log.String())
		case <-deadline.C:
			t.Fatalf("GET %s: no %d; last: %s\n%s", url, status, last, n.log.String())
		}
	}
}

func fetch(ctx context.Context, url string) (body string, code int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", 0, err
	}
	r.Header.Set("X-Shard-Key", "alice")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", 0, err
	}
	b, err := io.ReadAll(res.Body)
	if err == nil {
		err = res.Body.Close()
	}
	return string(b), res.StatusCode, err
}

// finish stops the node and returns its exit code.
func (n *node) finish(t *testing.T) int {
	t.Helper()
	n.stop()
	select {
	case code := <-n.ended:
		return code
	case <-time.After(30 * time.Second):
		t.Fatalf("the node does not stop\n%s", n.log.String())
		return 0
	}
}

// app starts an app that responds with the shard headers it receives, and returns its address.
func app(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sick" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintf(w, "%s at %s", r.Header.Get("Shardway-Key"), r.Header.Get("Shardway-Node"))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestRunServesUntilItIsStopped(t *testing.T) {
	t.Parallel()
	n := start(t, app(t), "--health=/", "--probe-path=/_ready", "--debug-headers", "--endpoint=grpc=10.0.0.5:9000")
	n.get(t, "http://"+n.probes+"/readyz", http.StatusOK)
	if body := n.get(t, "http://"+n.listen+"/", http.StatusOK); body != "alice at solo" {
		t.Errorf("the app saw %q", body)
	}
	n.get(t, "http://"+n.listen+"/_ready", http.StatusOK)
	if body := n.get(t, "http://"+n.admin+"/metrics", http.StatusOK); !strings.Contains(body, "shardway_") || !strings.Contains(body, "go_goroutines") {
		t.Errorf("metrics are missing:\n%s", body)
	}
	code, out, errOut := run(t, "status --admin "+n.admin)
	if code != 0 || !strings.Contains(out, "solo") || !strings.Contains(out, "16 of 16 here") {
		t.Errorf("status: exit %d, %s\n%s", code, errOut, out)
	}
	_, out, _ = run(t, "endpoints --admin "+n.admin)
	for _, want := range []string{n.listen, n.admin, "10.0.0.5:9000"} {
		if !strings.Contains(out, want) {
			t.Errorf("endpoint %s is not announced:\n%s", want, out)
		}
	}
	if code := n.finish(t); code != 0 {
		t.Errorf("exit %d after being told to stop\n%s", code, n.log.String())
	}

	// The data directory keeps all state, so the same node starts again.
	n.launch(t)
	if body := n.get(t, "http://"+n.listen+"/", http.StatusOK); body != "alice at solo" {
		t.Errorf("after a restart the app saw %q", body)
	}
	if code := n.finish(t); code != 0 {
		t.Errorf("exit %d after being told to stop again\n%s", code, n.log.String())
	}
}

func TestUnhealthyAppMakesTheNodeUnready(t *testing.T) {
	t.Parallel()
	n := start(t, app(t), "--health=/sick")
	n.get(t, "http://"+n.admin+"/livez", http.StatusOK)
	n.get(t, "http://"+n.probes+"/readyz", http.StatusServiceUnavailable)
	if code := n.finish(t); code != 0 {
		t.Errorf("exit %d\n%s", code, n.log.String())
	}
}

// The health check decides for each app instance of a node, with the configured request and response.
func TestHealthCheckDecidesForEachInstance(t *testing.T) {
	t.Parallel()
	var urls []string
	for _, state := range []string{"starting", "ready"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path != "/state":
				_, _ = io.WriteString(w, state)
			case r.Method != http.MethodPost || r.Host != "app.example" || r.Header.Get("Accept") != "text/plain, */*":
				w.WriteHeader(http.StatusBadRequest)
			default:
				w.WriteHeader(http.StatusTeapot)
				_, _ = io.WriteString(w, "state: "+state)
			}
		}))
		t.Cleanup(s.Close)
		urls = append(urls, s.URL)
	}
	n := start(t, urls[0], "--upstream="+urls[1], "--health=/state", "--health-method=POST", "--health-host=app.example", "--health-header=Accept: text/plain, */*",
		"--health-status=2xx,418", "--health-body=state: ready", "--returns=any")
	n.get(t, "http://"+n.probes+"/readyz", http.StatusOK)
	for range 20 {
		if body := n.get(t, "http://"+n.listen+"/", http.StatusOK); body != "ready" {
			t.Fatalf("the instance that is %s got a request", body)
		}
	}
	out := ""
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(out, `the app answered /state without "state: ready" in the body`); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the status does not name the cause:\n%s", out)
		}
		_, out, _ = run(t, "status --admin "+n.admin)
	}
	if code := n.finish(t); code != 0 {
		t.Errorf("exit %d\n%s", code, n.log.String())
	}
}

//nolint:tparallel // its parts need the running node
func TestFailedStartNamesTheRemedy(t *testing.T) {
	t.Parallel()
	n := start(t, app(t))
	n.get(t, "http://"+n.probes+"/readyz", http.StatusOK)
	data := strings.TrimPrefix(n.args[2], "--data=")
	ports := freeport.Addrs(t, 4)
	others := func(data string, more ...string) []string {
		return append([]string{"run", "--data=" + data, "--upstream=http://127.0.0.1:1", "--log-format=json", "--listen=" + ports[0], "--admin=" + ports[1], "--gossip=" + ports[2], "--peer=" + ports[3]}, more...)
	}
	tests := []struct {
		name string
		args []string
		want []string
	}{
		{"port taken", others(t.TempDir(), "--listen="+n.listen), []string{n.listen + " is taken by another process", "--listen"}},
		{"no such address", others(t.TempDir(), "--insecure", "--peer=192.0.2.1:7947"), []string{"192.0.2.1:7947 is not an address of this machine", "--peer"}},
		{"data in use", others(data), []string{data, "in use by another process", "--data"}},
		{"data is a file", others("/dev/null"), []string{"/dev/null", "--data"}},
		{"gossip port taken", others(t.TempDir(), "--gossip="+strings.TrimPrefix(n.args[9], "--gossip=")), []string{"--gossip"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := cli.Run(t.Context(), tt.args, nil, &out, &errOut)
			var lines []string // without log lines
			for line := range strings.Lines(errOut.String()) {
				if !strings.HasPrefix(line, "{") {
					lines = append(lines, line)
				}
			}
			if code != 1 || len(lines) != 1 {
				t.Fatalf("exit %d:\n%s", code, errOut.String())
			}
			for _, want := range tt.want {
				if !strings.Contains(lines[0], want) {
					t.Errorf("%q is not in %s", want, lines[0])
				}
			}
		})
	}
	if code := n.finish(t); code != 0 {
		t.Errorf("exit %d\n%s", code, n.log.String())
	}
	n.args = append(n.args, "--shards=32")
	n.launch(t)
	if code := <-n.ended; code != 1 || !strings.Contains(n.log.String(), "--shards 16") {
		t.Errorf("another number of shards: exit %d\n%s", code, n.log.String())
	}
}

func TestRunRefusesAWrongConfiguration(t *testing.T) {
	code, out, errOut := run(t, "run --lease 5 --bogus --gossip :7946")
	if code != 2 || out != "" || strings.Count(errOut, "\n") != 3 || !strings.Contains(errOut, "--insecure") {
		t.Errorf("exit %d\n%s%s", code, out, errOut)
	}
	code, out, _ = run(t, "run --help")
	if code != 0 || !strings.Contains(out, "--upstream URL") {
		t.Errorf("run --help: exit %d\n%s", code, out)
	}
	code, _, errOut = run(t, "demo -- --takeover maybe")
	if code != 2 || !strings.Contains(errOut, "takeover") {
		t.Errorf("demo with a wrong flag: exit %d\n%s", code, errOut)
	}
}
