//go:build linux

package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"shardway/e2e/kit/browser"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/wsresume"
)

// libraries are the apps and clients in other languages, ready to run.
type libraries struct {
	dir    string
	node   string // empty means that Node or the package ws is not installed
	python string // empty means that Python or websockets is not installed
}

func makeKeptEnds(t *testing.T) *libraries {
	t.Helper()
	e := &libraries{dir: t.TempDir(), python: pythonWith(t, "websockets")}
	sub, err := fs.Sub(wsresume.Peers, "peers")
	must(t, err)
	must(t, os.CopyFS(e.dir, sub))
	if npmInstalls(t, e.dir, "ws@8") {
		e.node, err = exec.LookPath("node")
		must(t, err)
	}
	return e
}

// pythonWith returns a Python that has a module. The system may have a different one than
// the first in PATH.
func pythonWith(t *testing.T, module string) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import "+module).Run() == nil {
			return python
		}
	}
	t.Logf("no Python has %s: the clients that need it are skipped", module)
	return ""
}

// npmInstalls reports whether packages for Node are installed.
func npmInstalls(t *testing.T, dir string, names ...string) bool {
	t.Helper()
	args := append([]string{"install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir}, names...)
	cmd := exec.CommandContext(t.Context(), "npm", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Logf("%q cannot be installed: %v: %s", names, err, bytes.TrimSpace(out))
		return false
	}
	return true
}

func (e *libraries) file(name string) string { return filepath.Join(e.dir, name) }

// apps returns the commands of three apps, of three libraries if they are installed.
func (e *libraries) apps() [][]string {
	coder := []string{os.Args[0], wsresume.Coder}
	apps := [][]string{coder, coder, coder}
	if e.node != "" {
		apps[1] = []string{e.node, e.file("app.cjs")}
	}
	if e.python != "" {
		apps[2] = []string{e.python, e.file("app.py")}
	}
	return apps
}

// scriptClient is a connection of a client process.
type scriptClient struct {
	end  func() // ends all its connections
	over chan struct{}

	mu  sync.Mutex
	saw wsresume.Client
}

// runClient runs a client with a connection for each name, and wsresume.SendWindow.
func runClient(t *testing.T, urls map[string]string, command ...string) (list []resumeClient) {
	t.Helper()
	byName := map[string]*scriptClient{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	end := sync.OnceFunc(func() { _ = in.Close() })
	cmd.Args = append(cmd.Args, strconv.Itoa(wsresume.SendWindow))
	for name, url := range urls {
		cmd.Args = append(cmd.Args, name+"="+url)
		byName[name] = &scriptClient{end: end, over: make(chan struct{}), saw: wsresume.Client{Name: name}}
		list = append(list, byName[name])
	}
	runScript(t, cmd, cancel, byName)
	return list
}

// runScript starts a program until the test ends. Each line of its output begins with
// the name of a client, whose receiveLine method receives the rest.
func runScript[C interface {
	receiveLine(text string)
}](t *testing.T, cmd *exec.Cmd, cancel context.CancelFunc, byName map[string]C) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			name, text, _ := strings.Cut(lines.Text(), " ")
			if c, known := byName[name]; known {
				c.receiveLine(text)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		reading.Wait()
		_ = cmd.Wait()
	})
}

// receiveLine receives a line about the connection: a number of the app, or its end.
func (c *scriptClient) receiveLine(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end, is := strings.CutPrefix(text, "end "); is {
		sent, kind, _ := strings.Cut(end, " ")
		c.saw.Sent, _ = strconv.ParseUint(sent, 10, 64) // Check detects a zero
		if kind = strings.TrimSpace(kind); kind != "1000" {
			c.saw.Err = "closed with " + kind
		}
		close(c.over)
		return
	}
	c.saw.Received = append(c.saw.Received, numberOf(text))
}

// numberOf parses a message of an app. Check detects zeros.
func numberOf(text string) (n wsresume.AppMessage) {
	_, _ = fmt.Sscanf(text, "%d %d %d", &n.Conn, &n.Number, &n.LastReceived)
	return n
}

func (c *scriptClient) newest() (n wsresume.AppMessage, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.saw.Err != "" {
		err = errors.New(c.saw.Name + ": " + c.saw.Err)
	} else if len(c.saw.Received) > 0 {
		n = c.saw.Received[len(c.saw.Received)-1]
	}
	return n, err
}

func (c *scriptClient) stop() { c.end() }

func (c *scriptClient) wait() wsresume.Client {
	<-c.over
	return c.saw
}

// pageClient is a connection of a browser.
type pageClient struct {
	*browser.Page
	t    *testing.T
	name string
}

// openPage opens a connection for each name in a browser.
func openPage(t *testing.T, urls map[string]string) (list []resumeClient) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>sockets</title><p>numbers")
	}))
	t.Cleanup(srv.Close)
	page := browser.StartOrSkip(t).Open(t, srv.URL, browser.View{Width: 400, Height: 300})
	for name, url := range urls {
		page.Eval(t, fmt.Sprintf(`(() => {
			const x = {sent: 0, ack: 0, ticks: 0, got: [], end: '', ending: false}, ws = new WebSocket(%q)
			;(window.sockets ??= {})[%q] = x
			ws.onopen = () => x.timer = setInterval(() => {
				if (!x.ending && x.sent >= x.ack + %d && ++x.ticks %% 10) return
				ws.send((x.ending ? 'end ' : '') + ++x.sent)
				if (x.ending) clearInterval(x.timer)
			}, 10)
			ws.onmessage = (e) => { x.got.push(e.data); x.ack = +e.data.split(' ')[2] }
			ws.onclose = (e) => { clearInterval(x.timer); x.end = String(e.code) }
			return true
		})()`, url, name, wsresume.SendWindow), nil)
		list = append(list, &pageClient{page, t, name})
	}
	return list
}

func (c *pageClient) at(expression string) string {
	return fmt.Sprintf("sockets[%q].%s", c.name, expression)
}

func (c *pageClient) newest() (wsresume.AppMessage, error) {
	var saw []string
	c.Eval(c.t, "["+c.at("got.at(-1) ?? ''")+", "+c.at("end")+"]", &saw)
	if saw[1] != "" {
		return wsresume.AppMessage{}, errors.New(c.name + ": closed with " + saw[1])
	}
	return numberOf(saw[0]), nil
}

func (c *pageClient) stop() { c.Eval(c.t, c.at("ending = true"), nil) }

func (c *pageClient) wait() wsresume.Client {
	c.Await(c.t, "the socket is closed", c.at("end")+" !== ''")
	saw := wsresume.Client{Name: c.name}
	var got []string
	var code string
	c.Eval(c.t, c.at("got"), &got)
	c.Eval(c.t, c.at("sent"), &saw.Sent)
	if c.Eval(c.t, c.at("end"), &code); code != "1000" {
		saw.Err = "closed with " + code
	}
	for _, text := range got {
		saw.Received = append(saw.Received, numberOf(text))
	}
	return saw
}

// TestWebSocketLibrariesResume has clients of four libraries and apps of three. The apps
// hand connections over to each other while their nodes restart one after the other. No
// connection is closed, nothing is lost, and nothing is repeated.
func TestWebSocketLibrariesResume(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	ends := makeKeptEnds(t)
	x := startResumeWith(t, resumeOptions{apps: ends.apps()})
	x.front = x.front[1:]
	x.open(t)
	shardMap := x.AwaitServedBy(t, x.nodes...)
	urls := func(client string) map[string]string {
		all := map[string]string{}
		for _, node := range x.nodes {
			name := client + node.ID
			all[name] = "ws://" + x.front[0].Addr + "/?client=" + name + "&key=" + shardMap.Keys(node.ID, 1)[0]
		}
		return all
	}
	if ends.node != "" {
		x.conns = append(x.conns, runClient(t, urls("ws"), ends.node, ends.file("client.cjs"))...)
	}
	if ends.python != "" {
		x.conns = append(x.conns, runClient(t, urls("py"), ends.python, ends.file("client.py"))...)
	}
	if _, ok := browser.Find(); ok {
		x.conns = append(x.conns, openPage(t, urls("page"))...)
	}
	x.awaitProgress(t)
	startedAt := history.Now()
	for _, node := range x.nodes {
		node.Stop(t)
		x.awaitProgress(t)
		node.Start(t)
		x.AwaitServedBy(t, x.nodes...)
		x.awaitProgress(t)
	}
	_, planned := x.wantPlanned(t, startedAt)
	x.check(t)
	t.Logf("%d sockets, %d hand-offs", len(x.conns), planned)
}
