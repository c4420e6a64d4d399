//go:build linux

package recipes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"shardway/e2e/kit/cluster"
)

// TestJupyterRunsOncePerUser runs one Jupyter server for each user. A gradual drain waits for the user whose cell runs. A
// restart and kill -9 end the kernels of a user, and keep the files.
func TestJupyterRunsOncePerUser(t *testing.T) {
	t.Parallel() // it waits most of the time
	w := startProcesses(t, findProgram(t, "env")+" HOME={dir} JUPYTER_TOKEN="+jupyterToken+" "+findProgram(t, "jupyter-server")+
		" --allow-root --no-browser --ip 127.0.0.1 --port {port} --ServerApp.port_retries=0 --ServerApp.base_url=/user/{key}/ --ServerApp.root_dir={dir}",
		"--key=path:2", "--exec-ready=/user/{key}/api")
	names := w.AwaitServing(t).Keys("a", 1) // of users of one node, in different shards
	node, others := w.Node("a"), w.Others(w.Node("a"))
	alice, bob := &jupyterUser{w: w, name: names[0]}, &jupyterUser{w: w, name: names[1]}

	bobs := bob.open(t)
	bobs.run(t, "x = 1; open('kept', 'w').write('by bob')", "")
	bobs.close()
	cell := alice.open(t)
	pid := cell.run(t, "import os; x = 42; open('kept', 'w').write('by alice'); print(os.getpid())", "")
	// A cell that runs while the node is drained.
	cell.start(t, "import time\nwhile not os.path.exists('end'): time.sleep(0.02)\nprint(x)")
	drained := make(chan error, 1)
	go func() {
		drained <- node.TryAction(t.Context(), "drain", url.Values{"node": {node.ID}, "idle_first": {"5m"}})
	}()
	cluster.Await(t, "the idle user moves", func() error { return w.runsAt(t, bob.name, node, false) })
	must(t, <-drained)
	bobs = bob.open(t)
	bobs.run(t, "print(open('kept').read())", "by bob")
	bobs.run(t, "print('x' in globals())", "False") // another kernel
	bobs.close()
	must(t, w.runsAt(t, alice.name, node, true))
	alice.putFile(t, "end")
	cell.await(t, "42")
	cell.close()
	cluster.Await(t, "the user moves when the cell has ended", func() error { return w.runsAt(t, alice.name, node, false) })
	awaitEnd(t, pid)
	w.awaitOwnedBy(t, node, false)
	if n := alice.kernels(t); n != 0 {
		t.Errorf("%d kernels after a move", n)
	}

	cell = alice.open(t)
	cell.run(t, "print(open('kept').read())", "by alice")
	pid = cell.run(t, "import os; print(os.getpid())", "")
	w.killProcess(t, alice.name)
	cell.awaitClosed(t)
	awaitEnd(t, pid)
	cell = alice.open(t)
	cell.run(t, "print(open('kept').read(), 'x' in globals())", "by alice False")
	pid = cell.run(t, "import os; print(os.getpid())", "")

	owner, _ := w.processOf(t, alice.name)
	owner.Terminate(t)
	owner.AwaitExit(t, 0)
	cell.awaitClosed(t)
	awaitEnd(t, pid)
	owner.Start(t)
	w.AwaitShards(t, others...)
	w.checkOneProcess(t)
}

// jupyterToken is the token of all users in this test.
const jupyterToken = "0123456789abcdef"

// runsAt returns an error unless a node runs the process of a key, or does not run it.
func (w *processWorld) runsAt(t *testing.T, key string, node *cluster.Node, want bool) error {
	t.Helper()
	runs := false
	for _, process := range w.processes(t, node) {
		runs = runs || process.Key == key
	}
	if runs != want {
		return fmt.Errorf("node %s runs a process of %s: %v", node.ID, key, runs)
	}
	return nil
}

// awaitEnd waits until a process has ended.
func awaitEnd(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	must(t, err)
	cluster.Await(t, "the kernel has ended", func() error {
		if err := syscall.Kill(n, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kernel %d runs: %w", n, err)
		}
		return nil
	})
}

// jupyterUser is a user with one Jupyter server. The requests go through all nodes in turn.
type jupyterUser struct {
	w    *processWorld
	name string
	sent int
}

// addr returns the address of the next running node.
func (u *jupyterUser) addr() string {
	u.sent++
	addrs := cluster.Addrs(u.w.Running())
	return addrs[u.sent%len(addrs)]
}

// send sends a request to the API of the user's server, and decodes the response into target. nil discards it.
func (u *jupyterUser) send(t *testing.T, method, path string, body, target any) {
	t.Helper()
	encoded, err := json.Marshal(body)
	must(t, err)
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+u.addr()+"/user/"+u.name+"/api/"+path, strings.NewReader(string(encoded)))
	must(t, err)
	req.Header.Set("Authorization", "token "+jupyterToken)
	client := http.Client{Timeout: 40 * time.Second}
	res, err := client.Do(req)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	must(t, err)
	if res.StatusCode > 299 {
		t.Fatalf("%s %s of %s: %s %s", method, path, u.name, res.Status, text)
	}
	if target != nil {
		must(t, json.Unmarshal(text, target))
	}
}

// kernels returns the number of kernels of the user.
func (u *jupyterUser) kernels(t *testing.T) int {
	t.Helper()
	var list []any
	u.send(t, http.MethodGet, "kernels", nil, &list)
	return len(list)
}

// putFile creates a file in the directory of the user.
func (u *jupyterUser) putFile(t *testing.T, name string) {
	t.Helper()
	u.send(t, http.MethodPut, "contents/"+name, map[string]string{"type": "file", "format": "text", "content": "x"}, nil)
}

// kernel is a kernel with its WebSocket.
type kernel struct {
	socket *websocket.Conn
	cells  int
}

// open starts a kernel and connects to it, as a browser does.
func (u *jupyterUser) open(t *testing.T) *kernel {
	t.Helper()
	var started struct{ ID string }
	u.send(t, http.MethodPost, "kernels", map[string]string{"name": "python3", "path": ""}, &started)
	addr := u.addr()
	socket, _, err := websocket.Dial(t.Context(), "ws://"+addr+"/user/"+u.name+"/api/kernels/"+started.ID+"/channels", &websocket.DialOptions{ //nolint:bodyclose // there is none after 101
		HTTPHeader: http.Header{"Authorization": {"token " + jupyterToken}, "Origin": {"http://" + addr}},
	})
	must(t, err)
	socket.SetReadLimit(1 << 20)
	return &kernel{socket: socket}
}

// close closes the WebSocket. The kernel continues.
func (k *kernel) close() { _ = k.socket.CloseNow() }

// start sends a cell to the kernel.
func (k *kernel) start(t *testing.T, code string) {
	t.Helper()
	k.cells++
	message, err := json.Marshal(map[string]any{
		"channel": "shell", "parent_header": map[string]any{}, "metadata": map[string]any{}, "buffers": []any{},
		"header":  map[string]any{"msg_id": k.id(), "msg_type": "execute_request", "session": "s", "username": "", "version": "5.3", "date": time.Now().UTC().Format(time.RFC3339)},
		"content": map[string]any{"code": code, "silent": false, "store_history": true, "user_expressions": map[string]any{}, "allow_stdin": false, "stop_on_error": true},
	})
	must(t, err)
	must(t, k.socket.Write(t.Context(), websocket.MessageText, message))
}

// id returns the ID of the message of the last cell.
func (k *kernel) id() string { return fmt.Sprint("cell-", k.cells) }

// await waits until the last cell has ended, and returns its output. Empty want means any output.
func (k *kernel) await(t *testing.T, want string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cluster.AwaitTimeout)
	defer cancel()
	output := ""
	for isIdle, hasReply := false, false; !isIdle || !hasReply; {
		_, data, err := k.socket.Read(ctx)
		must(t, err)
		var message struct {
			Header struct {
				Type string `json:"msg_type"`
			}
			Parent struct {
				ID string `json:"msg_id"`
			} `json:"parent_header"`
			Content struct {
				Text   string
				Status string
				State  string `json:"execution_state"`
				Value  string `json:"evalue"`
			}
		}
		must(t, json.Unmarshal(data, &message))
		if message.Parent.ID != k.id() {
			continue
		}
		switch message.Header.Type {
		case "stream":
			output += message.Content.Text
		case "status":
			isIdle = message.Content.State == "idle"
		case "execute_reply":
			hasReply = true
			if message.Content.Status != "ok" {
				t.Fatalf("the cell failed: %s", message.Content.Value)
			}
		}
	}
	output = strings.TrimSpace(output)
	if want != "" && output != want {
		t.Errorf("output %q, want %q", output, want)
	}
	return output
}

// run runs a cell, and returns its output.
func (k *kernel) run(t *testing.T, code, want string) string {
	t.Helper()
	k.start(t, code)
	return k.await(t, want)
}

// awaitClosed waits until the WebSocket is closed.
func (k *kernel) awaitClosed(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cluster.AwaitTimeout)
	defer cancel()
	for {
		if _, _, err := k.socket.Read(ctx); err != nil {
			must(t, ctx.Err())
			return
		}
	}
}
