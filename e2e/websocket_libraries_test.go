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

// keptEnds are ends of sockets in other languages, ready to run.
type keptEnds struct {
	dir    string
	node   string // empty: it, or ws, is not installed
	python string // likewise
}

func makeKeptEnds(t *testing.T) *keptEnds {
	t.Helper()
	e := &keptEnds{dir: t.TempDir(), python: pythonWith(t, "websockets")}
	sub, err := fs.Sub(wsresume.Peers, "peers")
	must(t, err)
	must(t, os.CopyFS(e.dir, sub))
	if npmInstalls(t, e.dir, "ws@8") {
		e.node, err = exec.LookPath("node")
		must(t, err)
	}
	return e
}

// pythonWith returns a Python that has a module. A system may have another one than PATH
// names first.
func pythonWith(t *testing.T, module string) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import "+module).Run() == nil {
			return python
		}
	}
	t.Logf("no Python has %s: what needs it is not run", module)
	return ""
}

// npmInstalls reports whether packages for Node are there.
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

func (e *keptEnds) file(name string) string { return filepath.Join(e.dir, name) }

// apps are commands for three apps: of three libraries, where they are installed.
func (e *keptEnds) apps() [][]string {
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

// keptScript is a socket of a client that is a process.
type keptScript struct {
	end  func() // of all its sockets
	over chan struct{}

	mu  sync.Mutex
	saw wsresume.Client
}

// runKept runs a client with a socket for each name, and kept.Window.
func runKept(t *testing.T, urls map[string]string, command ...string) (list []keptEnd) {
	t.Helper()
	byName := map[string]*keptScript{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	end := sync.OnceFunc(func() { _ = in.Close() })
	cmd.Args = append(cmd.Args, strconv.Itoa(wsresume.Window))
	for name, url := range urls {
		cmd.Args = append(cmd.Args, name+"="+url)
		byName[name] = &keptScript{end: end, over: make(chan struct{}), saw: wsresume.Client{Name: name}}
		list = append(list, byName[name])
	}
	hearScript(t, cmd, cancel, byName)
	return list
}

// hearScript starts a program whose lines each begin with the name of the client that says
// the rest, until the test ends.
func hearScript[C interface {
	says(text string)
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
				c.says(text)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		reading.Wait()
		_ = cmd.Wait()
	})
}

// says takes what the client says of the socket: a number of the app, or how it ended.
func (c *keptScript) says(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end, is := strings.CutPrefix(text, "end "); is {
		sent, how, _ := strings.Cut(end, " ")
		c.saw.Sent, _ = strconv.ParseUint(sent, 10, 64) // the judge is told of a zero
		if how = strings.TrimSpace(how); how != "1000" {
			c.saw.Err = "closed with " + how
		}
		close(c.over)
		return
	}
	c.saw.Got = append(c.saw.Got, numberOf(text))
}

// numberOf reads a message of an app; the judge is told of zeros.
func numberOf(text string) (n wsresume.Number) {
	_, _ = fmt.Sscanf(text, "%d %d %d", &n.Conn, &n.N, &n.Ack)
	return n
}

func (c *keptScript) newest() (n wsresume.Number, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.saw.Err != "" {
		err = errors.New(c.saw.Name + ": " + c.saw.Err)
	} else if len(c.saw.Got) > 0 {
		n = c.saw.Got[len(c.saw.Got)-1]
	}
	return n, err
}

func (c *keptScript) stop() { c.end() }

func (c *keptScript) wait() wsresume.Client {
	<-c.over
	return c.saw
}

// keptPage is a socket of a browser.
type keptPage struct {
	*browser.Page
	t    *testing.T
	name string
}

// openKept has a browser open a socket for each name.
func openKept(t *testing.T, urls map[string]string) (list []keptEnd) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>sockets</title><p>numbers")
	}))
	t.Cleanup(srv.Close)
	page := browser.Must(t).Open(t, srv.URL, browser.View{Width: 400, Height: 300})
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
		})()`, url, name, wsresume.Window), nil)
		list = append(list, &keptPage{page, t, name})
	}
	return list
}

func (c *keptPage) at(expression string) string {
	return fmt.Sprintf("sockets[%q].%s", c.name, expression)
}

func (c *keptPage) newest() (wsresume.Number, error) {
	var saw []string
	c.Eval(c.t, "["+c.at("got.at(-1) ?? ''")+", "+c.at("end")+"]", &saw)
	if saw[1] != "" {
		return wsresume.Number{}, errors.New(c.name + ": closed with " + saw[1])
	}
	return numberOf(saw[0]), nil
}

func (c *keptPage) stop() { c.Eval(c.t, c.at("ending = true"), nil) }

func (c *keptPage) wait() wsresume.Client {
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
		saw.Got = append(saw.Got, numberOf(text))
	}
	return saw
}

// TestWebSocketLibrariesResume has clients of four libraries count along with apps of three,
// which hand sockets over to each other while their nodes restart one after the other: no
// socket is closed, nothing is lost, and nothing comes twice.
func TestWebSocketLibrariesResume(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	ends := makeKeptEnds(t)
	x := startKeptBy(t, keptOptions{apps: ends.apps()})
	x.front = x.front[1:]
	x.open(t)
	m := x.AwaitServedBy(t, x.nodes...)
	urls := func(client string) map[string]string {
		all := map[string]string{}
		for _, n := range x.nodes {
			name := client + n.ID
			all[name] = "ws://" + x.front[0].Addr + "/?client=" + name + "&key=" + m.Keys(n.ID, 1)[0]
		}
		return all
	}
	if ends.node != "" {
		x.conns = append(x.conns, runKept(t, urls("ws"), ends.node, ends.file("client.cjs"))...)
	}
	if ends.python != "" {
		x.conns = append(x.conns, runKept(t, urls("py"), ends.python, ends.file("client.py"))...)
	}
	if _, ok := browser.Find(); ok {
		x.conns = append(x.conns, openKept(t, urls("page"))...)
	}
	x.goOn(t)
	began := history.Now()
	for _, n := range x.nodes {
		n.Stop(t)
		x.goOn(t)
		n.Start(t)
		x.AwaitServedBy(t, x.nodes...)
		x.goOn(t)
	}
	_, planned := x.wantPlanned(t, began)
	x.judge(t)
	t.Logf("%d sockets, %d hand-offs", len(x.conns), planned)
}
