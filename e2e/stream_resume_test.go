//go:build linux

package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardway/e2e/kit/browser"
	"shardway/e2e/kit/cluster"
)

// numbers is an app that counts, with an event every few milliseconds, from the one after
// the last event of its client.
func numbers(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path != "/feed" {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>a feed</title><p>numbers")
		return
	}
	last, _ := strconv.Atoi(req.Header.Get("Last-Event-ID"))
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Shardway-Stream", "resume")
	for req.Context().Err() == nil {
		last++
		// In two parts, so that moves happen in the middle of events.
		for _, part := range []string{fmt.Sprintf("id: %d\n", last), fmt.Sprintf("data: %d\n\n", last)} {
			if _, err := io.WriteString(w, part); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
		}
		select {
		case <-time.After(3 * time.Millisecond):
		case <-req.Context().Done():
		}
	}
}

// counter is a client that checks the numbers.
type counter struct {
	name string
	last atomic.Int64
	err  atomic.Value // an error, or the end of the stream
}

// follows reads events, and checks that each number is the next one.
func (c *counter) follows(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			continue
		}
		if n, err := strconv.ParseInt(data, 10, 64); err != nil || n != c.last.Load()+1 {
			c.err.CompareAndSwap(nil, fmt.Sprintf("%q behind %d", data, c.last.Load()))
			return
		}
		c.last.Add(1)
	}
	c.err.CompareAndSwap(nil, fmt.Sprintf("it ended behind %d: %v", c.last.Load(), lines.Err()))
}

// counters are the clients at one node.
type counters struct {
	at   *cluster.Node
	list []*counter
	page *browser.Page
}

// eventSourceScript follows a URL with the npm package eventsource. It would reconnect
// automatically, which is an error in this test.
const eventSourceScript = `
const { EventSource } = require('eventsource');
const feed = new EventSource(process.argv[2]);
feed.onmessage = (e) => console.log('data: ' + (e.lastEventId === e.data ? e.data : e.data + ' as ' + e.lastEventId));
feed.onerror = (e) => console.log('data: an error: ' + e.message);
`

// open starts a Go client for a key, curl with HTTP/1.0 for another, and eventsource of
// npm and EventSource of Chromium.
func (x *counters) open(t *testing.T, keys []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var reading sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		reading.Wait()
	})
	for _, key := range keys {
		c := &counter{name: "a client of " + key}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+x.at.Addr+"/feed?key="+key, nil)
		must(t, err)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		x.list = append(x.list, c)
		reading.Go(func() {
			defer func() { _ = resp.Body.Close() }()
			c.follows(resp.Body)
		})
	}
	url := "http://" + x.at.Addr + "/feed?key=" + keys[0]
	var programs [][]string
	if curl, err := exec.LookPath("curl"); err == nil {
		programs = append(programs, []string{curl, "-sSN0", url})
	}
	script := scriptFile(t, eventSourceScript)
	if npmInstalls(t, filepath.Dir(script), "eventsource@3") {
		programs = append(programs, []string{"node", script, url})
	}
	for _, command := range programs {
		c := &counter{name: filepath.Base(command[0])}
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		x.list = append(x.list, c)
		reading.Go(func() {
			c.follows(out)
			_ = cmd.Wait()
		})
	}
	if _, ok := browser.Find(); !ok {
		return
	}
	x.page = browser.StartOrSkip(t).Open(t, "http://"+x.at.Addr+"/page?key="+keys[0], browser.View{Width: 400, Height: 300})
	x.page.Eval(t, `(() => {
		window.got = 0; window.wrong = []
		const feed = new EventSource('/feed?key=`+keys[0]+`')
		feed.onmessage = (e) => { if (Number(e.data) !== ++got || e.lastEventId !== e.data) wrong.push(e.data + ' as ' + got) }
		feed.onerror = () => wrong.push('an error behind ' + got)
		return true
	})()`, nil)
}

// awaitProgress waits until each client has received more events.
func (x *counters) awaitProgress(t *testing.T) {
	t.Helper()
	for _, c := range x.list {
		from := c.last.Load()
		cluster.Await(t, c.name+" continues", func() error {
			if err := c.err.Load(); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if now := c.last.Load(); now < from+10 {
				return fmt.Errorf("it got from %d to %d", from, now)
			}
			return nil
		})
	}
	if x.page == nil {
		return
	}
	var from int
	x.page.Eval(t, "got", &from)
	x.page.Await(t, "EventSource continues", fmt.Sprintf("wrong.length || got > %d", from+10))
	var wrong []string
	x.page.Eval(t, "wrong", &wrong)
	if len(wrong) > 0 {
		t.Fatalf("EventSource: %q", wrong)
	}
}

// TestEventStreamsResumeAfterMoves has clients that count at a node while the others
// restart, one is drained, and one is killed. They miss and repeat no number, and their
// connections stay open.
func TestEventStreamsResumeAfterMoves(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	srv := httptest.NewServer(http.HandlerFunc(numbers))
	t.Cleanup(srv.Close)
	c := start(t, 3, "--upstream", srv.URL, "--key", "query:key", "--lease", "1500ms", "--dead-after", "6s")
	x := &counters{at: c.Follower(t)}
	shardMap := c.AwaitServing(t)
	var keys []string
	for _, node := range c.Nodes() {
		keys = append(keys, shardMap.Keys(node.ID, 1)[:3]...)
	}
	x.open(t, keys)
	x.awaitProgress(t)
	for _, node := range c.Others(x.at) {
		node.Stop(t)
		x.awaitProgress(t)
		node.Start(t)
		c.AwaitServing(t)
		x.awaitProgress(t)
	}
	node := c.Others(x.at)[0]
	for _, args := range [][]string{{"drain", x.at.ID, "--wait"}, {"uncordon", x.at.ID}} {
		if out, code := shardway(t, append(args, "--admin", node.Admin)...); code != 0 {
			t.Fatalf("%q: exit %d, %s", args, code, out)
		}
		x.awaitProgress(t)
	}
	c.AwaitServing(t)
	node.Kill(t)
	x.awaitProgress(t)
	if resumed := c.Sum(t, []*cluster.Node{x.at}, "shardway_stream_resumptions_total", "result", "resumed"); resumed < 5 {
		t.Errorf("%v upstream connections were followed by another, want some for each move", resumed)
	}
}
