package node_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"shardway/e2e/kit/history"
	"shardway/internal/simnet"
	"shardway/shardmap"
)

// app is the app of one node, on its own host. It continues when its node is killed, frozen or cut off, and reports what it runs to the
// witness.
type app struct {
	node string
	host *simnet.Host
	w    *witness
	sick atomic.Bool
	// keeps is the state that it holds; nil means that it has no hooks.
	keeps *keeper

	mu    sync.Mutex
	conns map[net.Conn]bool
}

var errSick = errors.New("sick")

// check is the node's health check of the app.
func (a *app) check(context.Context) error {
	if a.sick.Load() {
		return errSick
	}
	return nil
}

// startApp starts the app of a node before the node itself.
func startApp(w *world, node string) *app {
	w.t.Helper()
	a := &app{node: node, host: w.net.Host(node + ".app"), w: w.witness, conns: map[net.Conn]bool{}}
	w.net.SetLink(node, node+".app", simnet.Link{})
	ln, err := a.host.Listen(":9000")
	if err != nil {
		w.t.Fatal(err)
	}
	go func() { // ends with the network
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go a.serve(conn)
		}
	}()
	return a
}

// serve processes one request after the other, each for the requested time, or until its connection ends.
func (a *app) serve(conn net.Conn) {
	a.mu.Lock()
	a.conns[conn] = true
	a.mu.Unlock()
	defer func() {
		_ = conn.Close()
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.conns, conn)
	}()
	br := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if strings.HasPrefix(req.URL.Path, hookPath) && a.keeps != nil {
			a.hook(conn, br, req)
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		shard, _ := strconv.ParseUint(req.Header.Get("Shardway-Shard"), 10, 32)
		epoch, _ := strconv.ParseUint(req.Header.Get("Shardway-Epoch"), 10, 64)
		take, _ := time.ParseDuration(req.Header.Get("App-Take"))
		id := req.Header.Get("App-Id")
		if a.keeps != nil && !a.keeps.holds(shardmap.Shard(shard), epoch) {
			if _, err := io.WriteString(conn, "HTTP/1.1 421 Misdirected Request\r\nShardway-Acquire: 1\r\nContent-Length: 0\r\n\r\n"); err != nil {
				return
			}
			continue
		}
		run := a.w.begin(history.Run{
			App: a.node, Node: req.Header.Get("Shardway-Node"), Shard: uint32(shard), Epoch: epoch,
			Key: req.Header.Get("Shardway-Key"), ID: id, Method: req.Method,
		})
		more := make(chan bool, 1)
		go func() { // ends with the stream or the next request
			_, err := br.Peek(1)
			more <- err == nil
		}()
		work := time.NewTimer(take)
		select {
		case <-work.C:
		case <-more:
			work.Stop()
			a.w.end(run, true)
			return
		}
		a.w.end(run, false)
		if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nApp-Name: %s\r\nContent-Length: %d\r\n\r\n%s", a.node, len(id), id); err != nil {
			return
		}
		if !<-more {
			return
		}
	}
}

// hook answers one hook call, and closes its connection, as the node does.
func (a *app) hook(conn net.Conn, br *bufio.Reader, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	gone := make(chan bool, 1)
	go func() { // ends with the connection
		_, _ = br.Peek(1)
		gone <- true
	}()
	status := a.keeps.answer(req, gone)
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Length: 0\r\n\r\n", status, http.StatusText(status))
}

// client sends requests to nodes.
type client struct {
	host *simnet.Host
	w    *witness
	keys []string // by shard
	sent int
	wait atomic.Int64 // requests in flight
}

// patience is how long a client waits for a response. It is longer than queue-wait, than any app of a storm, and than the last
// retransmission of a lost segment.
const patience = 2 * time.Minute

func newClient(w *world) *client {
	c := &client{host: w.net.Host("client"), w: w.witness, keys: make([]string, shards)}
	for i, left := 0, shards; left > 0; i++ {
		key := fmt.Sprint("k", i)
		if s := shardmap.ShardOf(key, shards); c.keys[s] == "" {
			c.keys[s] = key
			left--
		}
	}
	return c
}

// send sends a request for a shard to p, which the app processes for the time take. It reports the response to the witness, and to told if
// that is not nil.
func (c *client) send(p *process, s shardmap.Shard, method string, take time.Duration, told func(history.Response)) {
	c.sent++
	a := history.Response{ID: strconv.Itoa(c.sent), Key: c.keys[s], Method: method}
	addr := p.host.Addr(8080)
	head := fmt.Sprintf("%s / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Shard-Key: %s\r\nApp-Id: %s\r\nApp-Take: %s\r\n", method, a.Key, a.ID, take)
	if method == http.MethodPost {
		head += "Content-Length: 0\r\n"
	}
	c.wait.Add(1)
	go func() { // ends after patience
		defer c.wait.Add(-1)
		t := history.Attempt{Target: p.name, Sent: now()}
		if err := c.exchange(&a, addr, head+"\r\n"); err != nil {
			t.Err, t.Refused = err.Error(), errors.Is(err, syscall.ECONNREFUSED)
		}
		t.Done = now()
		a.Attempts = []history.Attempt{t}
		c.w.answered(a)
		if told != nil {
			told(a)
		}
	}()
}

func (c *client) exchange(a *history.Response, addr, request string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := c.host.Dial(ctx, addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err = conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err = io.WriteString(conn, request); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	a.Status, a.Error, a.App = res.StatusCode, res.Header.Get("Shardway-Error"), res.Header.Get("App-Name")
	b, err := io.ReadAll(res.Body)
	a.Bytes, a.Truncated = int64(len(b)), err != nil
	if a.Error == "" {
		a.EchoID = string(b)
	} else {
		a.Detail = string(b)
	}
	return err
}
