package demo_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/valyala/fasthttp"

	"shardway/internal/demo"
)

func request(t *testing.T, app *demo.App, shard, epoch, key string) (*fasthttp.Response, demo.Answer) {
	t.Helper()
	var r fasthttp.Request
	r.SetRequestURI("http://app/any/path")
	r.Header.SetMethod("POST")
	for name, value := range map[string]string{
		"Shardway-Shard": shard, "Shardway-Epoch": epoch, "Shardway-Key": key, "Shardway-Node": "n1",
	} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	var ctx fasthttp.RequestCtx
	ctx.Init(&r, nil, nil)
	app.Serve(&ctx)
	var a demo.Answer
	if ctx.Response.StatusCode() == fasthttp.StatusOK {
		if err := json.Unmarshal(ctx.Response.Body(), &a); err != nil {
			t.Errorf("answer is no JSON: %v: %s", err, ctx.Response.Body())
		}
	}
	return &ctx.Response, a
}

// hook tells the app something of one shard, and returns why it failed.
func hook(t *testing.T, app *demo.App, name string, seq, shard, epoch int) (failed string) {
	t.Helper()
	var r fasthttp.Request
	r.SetRequestURI("http://app/_shards/" + name)
	r.Header.SetMethod("POST")
	r.Header.Set("Shardway-Hook", name)
	r.SetBodyString(fmt.Sprintf(`{"seq":%d,"disk":"d","shards":[{"shard":%d,"epoch":%d}]}`, seq, shard, epoch))
	var ctx fasthttp.RequestCtx
	ctx.Init(&r, nil, nil)
	app.Serve(&ctx)
	var a struct{ Failed map[string]string }
	if err := json.Unmarshal(ctx.Response.Body(), &a); err != nil || ctx.Response.StatusCode() != fasthttp.StatusOK {
		t.Fatalf("%s: %d %s", name, ctx.Response.StatusCode(), ctx.Response.Body())
	}
	return a.Failed[strconv.Itoa(shard)]
}

func TestAppCountsPerKey(t *testing.T) {
	app := demo.NewApp(t.TempDir())
	hook(t, app, "acquire", 1, 7, 3)
	request(t, app, "7", "3", "alice")
	request(t, app, "7", "3", "bob")
	w, _ := request(t, app, "7", "3", "alice")
	if want := `{"node":"n1","shard":7,"epoch":3,"key":"alice","count":2}` + "\n"; string(w.Body()) != want {
		t.Errorf("answer = %s, want %s", w.Body(), want)
	}
}

func TestAppLosesNoCountUnderConcurrency(t *testing.T) {
	app := demo.NewApp(t.TempDir())
	const workers, each = 8, 50
	for shard := range workers + 1 {
		hook(t, app, "acquire", 1, shard+1, 1)
	}
	seen := make([]map[uint64]bool, workers)
	var wg sync.WaitGroup
	for i := range workers {
		seen[i] = make(map[uint64]bool)
		wg.Go(func() {
			for j := range each {
				if _, a := request(t, app, "1", "1", "shared"); seen[i][a.Count] {
					t.Errorf("count %d was given twice", a.Count)
				} else {
					seen[i][a.Count] = true
				}
				request(t, app, strconv.Itoa(i+2), "1", "own"+strconv.Itoa(j))
			}
		})
	}
	wg.Wait()
	all := make(map[uint64]bool)
	for _, s := range seen {
		for n := range s {
			all[n] = true
		}
	}
	if len(all) != workers*each || !all[1] || !all[workers*each] {
		t.Errorf("%d different counts, want each of 1 to %d", len(all), workers*each)
	}
}

// wantCount has a request of alice counted.
func wantCount(t *testing.T, app *demo.App, epoch string, want uint64) {
	t.Helper()
	if w, a := request(t, app, "7", epoch, "alice"); a.Count != want {
		t.Errorf("count in epoch %s = %d (%d %s), want %d", epoch, a.Count, w.StatusCode(), w.Body(), want)
	}
}

// wantForeign has a request refused for a shard that the app does not hold: the node is to
// tell it to acquire that.
func wantForeign(t *testing.T, app *demo.App, epoch string) {
	t.Helper()
	if w, _ := request(t, app, "7", epoch, "alice"); w.StatusCode() != fasthttp.StatusMisdirectedRequest || string(w.Header.Peek("Shardway-Acquire")) != "1" {
		t.Errorf("epoch %s: %d %s", epoch, w.StatusCode(), w.Body())
	}
}

// A shard goes from app to app, released or not, and counts on; so does one whose app was
// restarted.
func TestCountsFollowTheirShard(t *testing.T) {
	dir := t.TempDir()
	one, two := demo.NewApp(dir), demo.NewApp(dir)
	wantForeign(t, one, "3")
	hook(t, one, "acquire", 1, 7, 3)
	wantCount(t, one, "3", 1)
	wantForeign(t, one, "4")
	hook(t, one, "release", 2, 7, 3)
	wantForeign(t, one, "3")

	hook(t, two, "acquire", 1, 7, 5)
	wantCount(t, two, "5", 2)
	two = demo.NewApp(dir) // killed
	wantForeign(t, two, "5")
	hook(t, two, "acquire", 2, 7, 5)
	wantCount(t, two, "5", 3)

	hook(t, one, "acquire", 3, 7, 9) // without a release
	wantCount(t, one, "9", 4)
	if w, _ := request(t, two, "7", "5", "alice"); w.StatusCode() != fasthttp.StatusConflict {
		t.Errorf("an owner that was left behind: %d %s", w.StatusCode(), w.Body())
	}
	wantForeign(t, two, "5")
	if why := hook(t, two, "acquire", 3, 7, 5); !strings.Contains(why, "fenced") {
		t.Errorf("it acquires what has a later owner: %q", why)
	}
	hook(t, one, "acquire", 4, 7, 9) // told twice
	wantCount(t, one, "9", 5)
}

// A call that was given up and arrives late changes nothing.
func TestLateHooksAreIgnored(t *testing.T) {
	app := demo.NewApp(t.TempDir())
	hook(t, app, "acquire", 5, 7, 3)
	hook(t, app, "release", 4, 7, 3)
	hook(t, app, "lost", 4, 7, 3)
	wantCount(t, app, "3", 1)
	hook(t, app, "lost", 6, 7, 3)
	wantForeign(t, app, "3")
}

func TestAppWantsANodeInFront(t *testing.T) {
	app := demo.NewApp(t.TempDir())
	for _, tc := range [][2]string{{"", "1"}, {"1", ""}, {"x", "1"}, {"1", "-1"}} {
		if w, _ := request(t, app, tc[0], tc[1], "k"); w.StatusCode() != fasthttp.StatusBadRequest {
			t.Errorf("shard %q, epoch %q = %d, want 400", tc[0], tc[1], w.StatusCode())
		}
	}
}
