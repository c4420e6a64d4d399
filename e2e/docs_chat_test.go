//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"shardway/e2e/kit/browser"
	"shardway/e2e/kit/cluster"
)

// chatLine is a line of a room. Lines from a client have no N.
type chatLine struct {
	N    int    `json:"n,omitempty"`
	Me   string `json:"me"`
	Seq  int    `json:"seq"`
	Text string `json:"text"`
}

// chatter is a client that sends one line after another, like chat.html.
type chatter struct {
	ws      *websocket.Conn
	name    string
	working sync.WaitGroup

	mu      sync.Mutex
	lines   []chatLine // all received lines
	waiting []chatLine // sent lines that have not come back
	err     error
}

func startChatter(t *testing.T, url, name string) *chatter {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ws, _, err := websocket.Dial(ctx, url, nil) //nolint:bodyclose // there is none after 101
	must(t, err)
	c := &chatter{ws: ws, name: name}
	c.working.Go(func() { c.receive(ctx) })
	c.working.Go(func() { c.talk(ctx) })
	t.Cleanup(func() {
		cancel()
		c.working.Wait()
		_ = ws.CloseNow()
	})
	return c
}

// receive receives the lines of the room.
func (c *chatter) receive(ctx context.Context) {
	for {
		var m struct {
			chatLine
			Ask bool
		}
		err := wsjson.Read(ctx, c.ws, &m)
		c.mu.Lock()
		switch {
		case err != nil:
			c.err = err
		case m.Ask:
			err = wsjson.Write(ctx, c.ws, map[string]any{"me": c.name, "have": len(c.lines)})
			for _, l := range c.waiting {
				_ = wsjson.Write(ctx, c.ws, l) // the next Read returns the error
			}
		default:
			c.lines = append(c.lines, m.chatLine)
			c.waiting = slices.DeleteFunc(c.waiting, func(l chatLine) bool { return l.Me == m.Me && l.Seq <= m.Seq })
		}
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// talk sends a line every few milliseconds.
func (c *chatter) talk(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for seq := 1; ; seq++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		l := chatLine{Me: c.name, Seq: seq, Text: fmt.Sprint(c.name, " ", seq)}
		c.waiting = append(c.waiting, l)
		_ = wsjson.Write(ctx, c.ws, l) // hear returns the error
		c.mu.Unlock()
	}
}

// continues waits until more lines of each name have arrived, and checks that each line
// arrives once and in order.
func (c *chatter) continues(t *testing.T, names ...string) {
	t.Helper()
	from := c.counts(t)
	cluster.Await(t, "the room continues", func() error {
		now := c.counts(t)
		for _, name := range names {
			if now[name] < from[name]+5 {
				return fmt.Errorf("%s received %d lines of %s, before that %d", c.name, now[name], name, from[name])
			}
		}
		return nil
	})
}

func (c *chatter) counts(t *testing.T) map[string]int {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		t.Fatalf("%s is connected no more: %v", c.name, c.err)
	}
	last := map[string]int{}
	for i, l := range c.lines {
		who, _, _ := strings.Cut(l.Text, " ")
		last[who]++
		if l.N != i+1 || l.Text != fmt.Sprint(who, " ", last[who]) {
			t.Fatalf("line %d received by %s is %+v, want line %d of %s", i+1, c.name, l, last[who], who)
		}
	}
	return last
}

// chatApp prepares a program of docs/apps/chat.md, with its page next to it.
func chatApp(t *testing.T, language string) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/apps/chat.md")
	must(t, err)
	block := func(of string) string {
		_, rest, found := strings.Cut(string(page), "\n```"+of+" chat\n")
		text, _, ended := strings.Cut(rest, "\n```\n")
		if !found || !ended {
			t.Fatalf("the page has no chat in %s in it", of)
		}
		return text
	}
	dir := t.TempDir()
	html, err := os.ReadFile("../internal/demo/chat.html")
	must(t, err)
	if block("html") != strings.TrimSpace(string(html)) {
		t.Error("docs/apps/chat.md shows another page than internal/demo/chat.html, which the demo has")
	}
	must(t, os.WriteFile(filepath.Join(dir, "chat.html"), html, 0o600))
	i := slices.IndexFunc(examples(), func(x example) bool { return x.language == language })
	if language == "go" {
		return compile(t, dir, block(language), "github.com/coder/websocket")
	}
	if !npmInstalls(t, dir, "ws@8") {
		t.Skip("the page's program needs ws")
	}
	return examples()[i].command(t, dir, block(language))
}

// TestExampleChatStaysConnected runs the chat programs of docs/apps/chat.md as printed.
// Two clients, one of them a browser with the page, send lines without a pause. Meanwhile
// the owner of the room is drained, the other nodes restart, and the owner and its app
// die. Each line arrives once and in order, and no client reconnects.
func TestExampleChatStaysConnected(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, language := range []string{"go", "js"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			f := startExample(t, chatApp(t, language), "--key", "query:room", "--lease", "1500ms", "--dead-after", "6s")
			at := f.Follower(t)
			room := f.AwaitServing(t).Keys(at.ID, 1)[0]
			url := at.Addr + "/?room=" + room
			c := startChatter(t, "ws://"+url, "go")
			names := []string{"go"}
			var page *browser.Page
			if _, ok := browser.Find(); ok {
				page = browser.StartOrSkip(t).Open(t, "http://"+url, browser.View{Width: 500, Height: 400})
				page.Await(t, "the page is connected", "byId('node').textContent === '"+at.ID+"'")
				page.Eval(t, "(() => { let n = 0; setInterval(() => say('page ' + ++n), 10); return true })()", nil)
				names = append(names, "page")
			}
			c.continues(t, names...)
			for _, text := range []string{"no JSON", "null", "7", `{"have":"x"}`} {
				sendToOtherRoom(t, "ws://"+url, text)
			}
			c.continues(t, names...)
			f.wantAppRunning(t, at)
			f.moveRoom(t, at, room, func() { c.continues(t, names...) })
			if page == nil {
				return
			}
			page.Await(t, "the page shows what others say", "lines.querySelectorAll('li').length > 100")
			if connections := page.Text(t, "#connections"); connections != "1" {
				t.Errorf("the page has connected %s times, want 1", connections)
			}
		})
	}
}

// sendToOtherRoom sends a line to another room, and disconnects after the app has received it.
func sendToOtherRoom(t *testing.T, url, text string) {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), url, nil) //nolint:bodyclose // there is none after 101
	must(t, err)
	must(t, ws.Write(t.Context(), websocket.MessageText, []byte(text)))
	_ = ws.Close(websocket.StatusNormalClosure, "") // the app may have closed first
}

// wantAppRunning fails the test if the process of the app of a node has ended.
func (f *exampleCluster) wantAppRunning(t *testing.T, node *cluster.Node) {
	t.Helper()
	p := f.apps[node.ID].process.Process
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
	if err != nil || strings.Contains(string(stat), ") Z ") {
		t.Fatalf("the app of %s has ended: %s, %v", node.ID, stat, err)
	}
}

// moveRoom drains the owner of a room, restarts the other nodes except at, and kills the
// owner and its app.
func (f *exampleCluster) moveRoom(t *testing.T, at *cluster.Node, room string, goesOn func()) {
	t.Helper()
	for _, args := range [][]string{{"drain", at.ID, "--wait"}, {"uncordon", at.ID}} {
		if out, code := shardway(t, append(args, "--admin", at.Admin)...); code != 0 {
			t.Fatalf("%q: exit %d, %s", args, code, out)
		}
		goesOn()
	}
	for _, node := range f.Others(at) {
		node.Stop(t)
		goesOn()
		node.Start(t)
		f.AwaitServing(t)
		goesOn()
	}
	node := f.Node(f.AwaitServing(t).OwnerOf(room))
	if node != at {
		node.Kill(t)
	}
	a := f.apps[node.ID]
	must(t, a.process.Process.Signal(syscall.SIGKILL))
	_ = a.process.Wait() // it was killed
	goesOn()             // an app that restarts before its node notices has ended the connections itself
	if node == at {
		a.start(t)
		goesOn()
	}
}
