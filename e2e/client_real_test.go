//go:build linux

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"shardway/e2e/kit/cluster"
)

// echo is the description of a request by the app of these tests.
type echo struct {
	Method, Key, Node, Path string
	Bytes                   int64
}

// echoApp describes requests, echoes WebSocket messages, and counts requests by node and
// key. All nodes share one app.
type echoApp struct {
	mu    sync.Mutex
	nodes map[string]map[string]int // requests by key and node
}

func (a *echoApp) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Header.Get("Upgrade") != "" {
		a.speak(w, req)
		return
	}
	n, err := io.Copy(io.Discard, req.Body)
	if err != nil {
		return // the client gets no response
	}
	e := echo{Method: req.Method, Key: req.Header.Get("Shardway-Key"), Node: req.Header.Get("Shardway-Node"), Path: req.URL.Path, Bytes: n}
	a.mu.Lock()
	if a.nodes[e.Key] == nil {
		a.nodes[e.Key] = make(map[string]int)
	}
	a.nodes[e.Key][e.Node]++
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if req.URL.Path != "/slow" {
		_ = json.NewEncoder(w).Encode(e)
		return
	}
	for range 5 { // in parts, without Content-Length
		_, _ = w.Write(bytes.Repeat([]byte(" "), 10_000))
		_ = http.NewResponseController(w).Flush()
	}
	_ = json.NewEncoder(w).Encode(e)
}

// speak echoes every message.
func (a *echoApp) speak(w http.ResponseWriter, req *http.Request) {
	c, err := websocket.Accept(w, req, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // Accept has sent the response
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(4 << 20)
	for {
		kind, message, err := c.Read(req.Context())
		if err != nil || c.Write(req.Context(), kind, message) != nil {
			return
		}
	}
}

// check checks that each key was served only by its owner.
func (a *echoApp) check(t *testing.T, shardMap cluster.Map) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, nodes := range a.nodes {
		if key != "" && (len(nodes) != 1 || nodes[shardMap.OwnerOf(key)] == 0) {
			t.Errorf("key %q was served by %v, its owner is %q", key, nodes, shardMap.OwnerOf(key))
		}
	}
}

// realClients is a cluster of three nodes with its app, and one key per node.
type realClients struct {
	c    *cluster.Cluster
	app  *echoApp
	keys []string
}

// TestRealClients runs third-party clients against a cluster. Each client sends requests
// to every node for keys of every node. It skips and names clients that are not
// installed.
func TestRealClients(t *testing.T) {
	app := &echoApp{nodes: make(map[string]map[string]int)}
	srv := httptest.NewServer(app)
	t.Cleanup(srv.Close)
	c := start(t, 3, "--upstream", srv.URL, "--key", "header:X-Shard-Key", "--key", "query:key")
	shardMap := c.AwaitServing(t)
	r := &realClients{c: c, app: app}
	for _, node := range c.Nodes() {
		r.keys = append(r.keys, shardMap.Keys(node.ID, 1)[0])
	}
	t.Run("curl", r.curl)
	t.Run("net http", r.netHTTP)
	t.Run("websocket", r.websocket)
	t.Run("node fetch", r.nodeFetch)
	t.Run("node WebSocket", r.nodeWebSocket)
	t.Run("node ws", r.nodeWS)
	t.Run("wrk", r.wrk)
	t.Run("h2load", r.h2load)
	app.check(t, c.AwaitServing(t))
}

// each calls f for every node and every key.
func (r *realClients) each(f func(url, key string)) {
	for _, node := range r.c.Nodes() {
		for _, key := range r.keys {
			f("http://"+node.Addr, key)
		}
	}
}

// runProgram runs an installed program and returns its output.
func runProgram(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, &out, &complaints)
	}
	return out.String()
}

// wantEchoes checks successive responses, which are JSON values.
func wantEchoes(t *testing.T, out string, want echo, times int) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(out))
	n := 0
	for ; ; n++ {
		var got echo
		if err := dec.Decode(&got); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in %q", err, out)
		}
		if got.Method != want.Method || got.Key != want.Key || got.Bytes != want.Bytes || got.Path != want.Path {
			t.Errorf("answer %+v, want %+v", got, want)
		}
	}
	if n != times {
		t.Errorf("%d responses, want %d", n, times)
	}
}

// upload writes a file for an upload.
func upload(t *testing.T, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "upload")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (r *realClients) curl(t *testing.T) {
	const size = 3 << 20 // curl sends Expect: 100-continue for bodies of this size
	file := upload(t, size)
	r.each(func(url, key string) {
		base := []string{"-sS", "--fail", "-H", "X-Shard-Key: " + key}
		curl := func(args ...string) string { return runProgram(t, "curl", slices.Concat(base, args)...) }
		// Twenty requests over one connection, then twenty concurrent ones.
		wantEchoes(t, curl(url+"/get?[1-20]"), echo{Method: "GET", Key: key, Path: "/get"}, 20)
		wantEchoes(t, curl("-Z", url+"/get?[1-20]"), echo{Method: "GET", Key: key, Path: "/get"}, 20)
		wantEchoes(t, curl("-d", "hello", url+"/post"), echo{Method: "POST", Key: key, Path: "/post", Bytes: 5}, 1)
		wantEchoes(t, curl("-T", file, url+"/put"), echo{Method: "PUT", Key: key, Path: "/put", Bytes: size}, 1)
		wantEchoes(t, curl("-T", file, "-H", "Transfer-Encoding: chunked", "-X", "POST", url+"/chunks"),
			echo{Method: "POST", Key: key, Path: "/chunks", Bytes: size}, 1)
		wantEchoes(t, curl("--http1.0", url+"/slow"), echo{Method: "GET", Key: key, Path: "/slow"}, 1)
		wantEchoes(t, curl(url+"/slow"), echo{Method: "GET", Key: key, Path: "/slow"}, 1)
		if head := curl("-I", url+"/head"); !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") {
			t.Errorf("HEAD = %q", head)
		}
	})
}

func (r *realClients) netHTTP(t *testing.T) {
	tr := &http.Transport{MaxIdleConnsPerHost: 50}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr, Timeout: 30 * time.Second}
	var running sync.WaitGroup
	r.each(func(url, key string) {
		for i := range 100 {
			running.Go(func() {
				want := echo{Method: "GET", Key: key, Path: "/go"}
				var body io.Reader
				if i%2 == 1 {
					want.Method, want.Bytes = "POST", int64(1000*i)
					body = bytes.NewReader(make([]byte, want.Bytes))
					if i%4 == 1 {
						body = io.MultiReader(body) // hides the length of the body
					}
				}
				req, err := http.NewRequestWithContext(t.Context(), want.Method, url+"/go", body)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("X-Shard-Key", key)
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = resp.Body.Close() }()
				var got echo
				if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
					t.Error(err)
				}
				if got.Node = ""; got != want {
					t.Errorf("%s = %+v, want %+v", resp.Status, got, want)
				}
			})
		}
	})
	running.Wait()
}

func (r *realClients) websocket(t *testing.T) {
	r.each(func(url, key string) {
		c, resp, err := websocket.Dial(t.Context(), url+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"X-Shard-Key": {key}}})
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body != nil {
			defer func() { _ = resp.Body.Close() }()
		}
		defer func() { _ = c.CloseNow() }()
		c.SetReadLimit(4 << 20)
		for _, size := range []int{0, 1, 125, 126, 70_000, 1 << 20} {
			sent := bytes.Repeat([]byte{byte(size)}, size)
			if err := c.Write(t.Context(), websocket.MessageBinary, sent); err != nil {
				t.Fatal(err)
			}
			if _, got, err := c.Read(t.Context()); err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("echo of a message of %d bytes has %d bytes, %v", size, len(got), err)
			}
		}
		if err := c.Close(websocket.StatusNormalClosure, "bye"); err != nil {
			t.Error(err)
		}
	})
}

// fetchScript uses fetch: many concurrent requests, and a streamed body.
const fetchScript = `
const [key, size, ...urls] = process.argv.slice(2);
const ask = async (url, init) => {
  const r = await fetch(url, {...init, headers: {'X-Shard-Key': key}});
  if (r.status !== 200) throw new Error(r.status + ' ' + await r.text());
  console.log(await r.text());
};
const stream = n => new ReadableStream({
  start(c) { for (let i = 0; i < 10; i++) c.enqueue(new Uint8Array(n / 10)); c.close(); }
});
(async () => {
  for (const url of urls) {
    await Promise.all(Array.from({length: 50}, () => ask(url + '/fetch', {method: 'POST', body: new Uint8Array(size)})));
    await ask(url + '/fetch', {method: 'POST', body: stream(+size), duplex: 'half'});
  }
})().catch(e => { console.error(e); process.exit(1); });
`

func (r *realClients) nodeFetch(t *testing.T) {
	const size = 20_000
	script := scriptFile(t, fetchScript)
	urls := r.urls("http")
	for _, key := range r.keys {
		out := runProgram(t, "node", slices.Concat([]string{script, key, strconv.Itoa(size)}, urls)...)
		wantEchoes(t, out, echo{Method: "POST", Key: key, Path: "/fetch", Bytes: size}, 51*len(urls))
	}
}

// webSocketScript sends messages and expects echoes. The WebSocket API of browsers cannot
// set a header, so the key is in the query.
const webSocketScript = `
const [kind, ...urls] = process.argv.slice(2);
const WS = kind === 'ws' ? require('ws') : WebSocket;
const talk = url => new Promise((resolve, reject) => {
  const ws = new WS(url), sizes = [1, 125, 126, 70000, 1 << 20];
  const send = () => ws.send('x'.repeat(sizes[0]));
  ws.onerror = e => reject(e.error ?? new Error(e.message ?? 'error'));
  ws.onopen = send;
  ws.onmessage = e => {
    if (e.data.length !== sizes.shift()) reject(new Error('a message of ' + e.data.length));
    sizes.length ? send() : ws.close(1000, 'bye');
  };
  ws.onclose = e => e.code === 1000 && !sizes.length ? resolve() : reject(new Error('closed ' + e.code));
});
Promise.all(urls.map(talk)).then(() => console.log('ok'), e => { console.error(e); process.exit(1); });
`

func (r *realClients) nodeWebSocket(t *testing.T) {
	script := scriptFile(t, webSocketScript)
	flags := []string{}
	if strings.HasPrefix(runProgram(t, "node", "--version"), "v20.") {
		flags = append(flags, "--experimental-websocket")
	} else if !strings.Contains(runProgram(t, "node", "-p", "typeof WebSocket"), "function") {
		t.Skip("this node has no WebSocket of its own")
	}
	runProgram(t, "node", slices.Concat(flags, []string{script, "own"}, r.webSocketURLs())...)
}

func (r *realClients) nodeWS(t *testing.T) {
	script := scriptFile(t, webSocketScript)
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	install := exec.CommandContext(ctx, npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", filepath.Dir(script), "ws@8")
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("ws cannot be installed: %v: %s", err, bytes.TrimSpace(out))
	}
	runProgram(t, "node", slices.Concat([]string{script, "ws"}, r.webSocketURLs())...)
}

func (r *realClients) urls(scheme string) []string {
	var urls []string
	for _, node := range r.c.Nodes() {
		urls = append(urls, scheme+"://"+node.Addr)
	}
	return urls
}

func (r *realClients) webSocketURLs() []string {
	var urls []string
	for _, url := range r.urls("ws") {
		for _, key := range r.keys {
			urls = append(urls, url+"/ws?key="+key)
		}
	}
	return urls
}

func scriptFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client.cjs")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var (
	wrkTotal  = regexp.MustCompile(`(\d+) requests in`)
	wrkErrors = regexp.MustCompile(`(?m)Socket errors.*$|Non-2xx.*$`)
	h2Total   = regexp.MustCompile(`(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout`)
)

func (r *realClients) wrk(t *testing.T) {
	r.each(func(url, key string) {
		out := runProgram(t, "wrk", "-t1", "-c20", "-d1s", "-H", "X-Shard-Key: "+key, url+"/wrk")
		total := wrkTotal.FindStringSubmatch(out)
		if bad := wrkErrors.FindString(out); bad != "" || total == nil || total[1] == "0" {
			t.Errorf("wrk: %s\n%s", bad, out)
		}
	})
}

func (r *realClients) h2load(t *testing.T) {
	const n = 1000
	file := upload(t, 5000)
	r.each(func(url, key string) {
		for _, more := range [][]string{nil, {"-m", "4"}, {"-d", file}} { // sequential, pipelined, and with a body
			out := runProgram(t, "h2load", slices.Concat([]string{"--h1", "-c", "10", "-n", strconv.Itoa(n), "-H", "X-Shard-Key: " + key}, more, []string{url + "/h2load"})...)
			if got := h2Total.FindStringSubmatch(out); got == nil || got[1] != strconv.Itoa(n) {
				t.Errorf("h2load %v: %s\n%s", more, fmt.Sprint(got), out)
			}
		}
	})
}
