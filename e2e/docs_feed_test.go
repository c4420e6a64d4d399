//go:build linux

package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestExampleFeedResumes runs the feed of docs/apps/sse.md as printed. A client that
// follows it through a node gets each line once and in order, although the owner is
// drained and killed.
func TestExampleFeedResumes(t *testing.T) {
	t.Parallel() // it waits most of the time
	page, err := os.ReadFile("../docs/apps/sse.md")
	must(t, err)
	_, rest, found := strings.Cut(string(page), "\n```python feed\n")
	text, _, ended := strings.Cut(rest, "\n```\n")
	if !found || !ended {
		t.Fatal("the page has no feed in it")
	}
	f := startExample(t, examples()[1].command(t, t.TempDir(), text))
	node := f.Follower(t)
	at := f.Others(node)[0]
	key, last := f.AwaitServing(t).Keys(node.ID, 1)[0], 0
	send := func(method, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+at.Addr+"/", strings.NewReader(body))
		must(t, err)
		req.Header.Set("X-Shard-Key", key)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		return resp
	}
	post := func() {
		t.Helper()
		if err := send(http.MethodPost, fmt.Sprint("line ", last+1)).Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	post()
	feed := send(http.MethodGet, "")
	defer func() { _ = feed.Body.Close() }()
	lines := bufio.NewReader(feed.Body)
	next := func() {
		t.Helper()
		last++
		want := fmt.Sprintf("id: %d\ndata: line %d\n\n", last, last)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(lines, got); string(got) != want {
			t.Fatalf("the feed continues with %q, %v; want %q", got, err, want)
		}
	}
	next()
	if out, code := shardway(t, "drain", node.ID, "--wait", "--admin", node.Admin); code != 0 {
		t.Fatalf("drain %s: exit %d, %s", node.ID, code, out)
	}
	post()
	next()
	if out, code := shardway(t, "uncordon", node.ID, "--admin", node.Admin); code != 0 {
		t.Fatalf("uncordon %s: exit %d, %s", node.ID, code, out)
	}
	if node = f.Node(f.AwaitServing(t).OwnerOf(key)); node != at {
		node.Kill(t)
	}
	post()
	next()
}
