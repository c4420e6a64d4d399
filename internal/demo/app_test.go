package demo_test

import (
	"encoding/json"
	"strconv"
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

func TestAppCountsPerKey(t *testing.T) {
	app := &demo.App{}
	request(t, app, "7", "3", "alice")
	request(t, app, "7", "3", "bob")
	w, _ := request(t, app, "7", "3", "alice")
	if want := `{"node":"n1","shard":7,"epoch":3,"key":"alice","count":2}` + "\n"; string(w.Body()) != want {
		t.Errorf("answer = %s, want %s", w.Body(), want)
	}
}

func TestAppLosesNoCountUnderConcurrency(t *testing.T) {
	app := &demo.App{}
	const workers, each = 8, 200
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

func TestAppStartsAnewWithEachOwnership(t *testing.T) {
	app := &demo.App{}
	request(t, app, "7", "3", "alice")
	if _, a := request(t, app, "7", "9", "alice"); a.Count != 1 {
		t.Errorf("count after the shard came back = %d, want 1: others counted meanwhile", a.Count)
	}
	if w, _ := request(t, app, "7", "3", "alice"); w.StatusCode() != fasthttp.StatusConflict {
		t.Errorf("request of an ended ownership = %d, want 409", w.StatusCode())
	}
	if _, a := request(t, app, "8", "3", "carol"); a.Count != 1 {
		t.Errorf("another shard is fenced too")
	}
}

func TestAppWantsANodeInFront(t *testing.T) {
	app := &demo.App{}
	for _, tc := range [][2]string{{"", "1"}, {"1", ""}, {"x", "1"}, {"1", "-1"}} {
		if w, _ := request(t, app, tc[0], tc[1], "k"); w.StatusCode() != fasthttp.StatusBadRequest {
			t.Errorf("shard %q, epoch %q = %d, want 400", tc[0], tc[1], w.StatusCode())
		}
	}
}
