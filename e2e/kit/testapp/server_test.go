//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/e2e/kit/history"
)

// send sends one request to the app. If shard is not empty, the request has the headers of a node.
func send(ctx context.Context, a *app, method, path, shard string, headers ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader("body"))
	if shard != "" {
		req.Header.Set("Shardway-Shard", shard)
		req.Header.Set("Shardway-Epoch", "12")
		req.Header.Set("Shardway-Node", "a")
		req.Header.Set("Shardway-Key", "alice")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, req)
	return w
}

func TestEachRequestIsRecorded(t *testing.T) {
	var out bytes.Buffer
	a := newApp("a", &out)
	for i, id := range []string{"one", "two", "two"} {
		w := send(t.Context(), a, "POST", "/x", "7", "App-Id", id, "App-Size", "500")
		if w.Code != 200 || w.Header().Get("App-Id") != id || w.Header().Get("App-Name") != "a" || w.Body.Len() != 500 {
			t.Fatalf("answer %d = %d %v, %d bytes", i, w.Code, w.Header(), w.Body.Len())
		}
		var body struct {
			Count uint64
			Shard uint32
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Count != uint64(i+1) || body.Shard != 7 {
			t.Errorf("body = %+v, %v, want count %d", body, err, i+1)
		}
	}
	if got := send(t.Context(), a, "GET", "/executions?id=two", "").Body.String(); got != "2\n" {
		t.Errorf("executions of two = %s", got)
	}
	path := filepath.Join(t.TempDir(), "runs")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	runs, err := history.ReadRuns(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 3 {
		t.Fatalf("%d runs in the file, want 3", len(runs))
	}
	for _, run := range runs {
		if run.App != "a" || run.Node != "a" || run.Key != "alice" || run.Shard != 7 || run.Epoch != 12 ||
			run.Method != "POST" || run.Start == 0 || run.End < run.Start || run.Aborted {
			t.Errorf("run = %+v", run)
		}
	}
	var listed []history.Run
	if err := json.Unmarshal(send(t.Context(), a, "GET", "/records", "").Body.Bytes(), &listed); err != nil || len(listed) != 3 {
		t.Errorf("/records = %d runs, %v", len(listed), err)
	}
}

func TestHangingRequestWaitsForRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApp("a", io.Discard)
		var w *httptest.ResponseRecorder
		go func() { w = send(t.Context(), a, "GET", "/x", "7", "App-Hang", "gate", "App-Id", "x") }()
		synctest.Wait()
		if w != nil || send(t.Context(), a, "GET", "/hanging?name=gate", "").Body.String() != "1\n" {
			t.Fatal("the request does not hang")
		}
		if a.runs[0].End != 0 {
			t.Errorf("hanging run = %+v", a.runs[0])
		}
		send(t.Context(), a, "POST", "/release?name=gate", "")
		synctest.Wait()
		if w == nil || w.Code != 200 || a.runs[0].End == 0 || a.runs[0].Aborted {
			t.Fatalf("released: %v, run %+v", w, a.runs[0])
		}
		send(t.Context(), a, "GET", "/x", "7", "App-Hang", "gate") // the gate stays open
	})
}

func TestRunIsRecordedAsAbortedWhenClientDisconnects(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		a := newApp("a", io.Discard)
		ctx, leave := context.WithCancel(context.Background())
		go send(ctx, a, "GET", "/x", "7", "App-Delay", "1h")
		synctest.Wait()
		leave()
		synctest.Wait()
		if !a.runs[0].Aborted || a.runs[0].End == 0 {
			t.Errorf("run = %+v, want it cut", a.runs[0])
		}
	})
}

func TestEachChunkIsDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApp("a", io.Discard)
		start := time.Now()
		w := send(t.Context(), a, "GET", "/x", "7", "App-Chunks", "10", "App-Delay", "1s", "App-Size", "1000")
		if w.Body.Len() != 1000 || !w.Flushed || w.Result().Header.Get("Content-Length") != "" {
			t.Errorf("%d bytes, flushed %v, header %v", w.Body.Len(), w.Flushed, w.Header())
		}
		if elapsed := time.Since(start); elapsed != 10*time.Second {
			t.Errorf("took %v of virtual time, want 10s", elapsed)
		}
	})
}

// TestAnotherAppContinuesTheFeed sends the events of a key from two apps without shared state. The
// second app starts after the last event of the first app.
func TestAnotherAppContinuesTheFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, from := range []uint64{0, 3} {
			a := newApp("a", io.Discard)
			ctx, leave := context.WithTimeout(t.Context(), 3250*time.Millisecond)
			w := send(ctx, a, "GET", "/x", "7", "App-Feed", "1s", "Last-Event-ID", strconv.FormatUint(from, 10))
			leave()
			var want strings.Builder
			for n := from + 1; n <= from+4; n++ {
				_, _ = fmt.Fprintf(&want, "id: %d\ndata: %s\n\n", n, history.EventText("alice", n))
			}
			if got := w.Body.String(); got != want.String() || w.Header().Get("Shardway-Stream") != "resume" || !a.runs[0].Resumes || !a.runs[0].Stream {
				t.Errorf("feed after event %d:\n%s, want\n%s; %v, %+v", from, got, want.String(), w.Header(), a.runs[0])
			}
		}
	})
}

// TestDisconnectedClientIsDetectedOverTCP verifies an assumption of the history checker: the app
// detects immediately that a node has abandoned a request.
func TestDisconnectedClientIsDetectedOverTCP(t *testing.T) {
	ended := make(chan history.Run, 1)
	a := newApp("a", io.Discard)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		a.ServeHTTP(w, req)
		ended <- a.runs[0]
	}))
	defer srv.Close()
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Shardway-Shard", "1")
	req.Header.Set("App-Chunks", "1000")
	req.Header.Set("App-Delay", "20ms")
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	leave()
	if run := <-ended; !run.Aborted {
		t.Errorf("run = %+v, want it cut", run)
	}
}

func TestHealthResponseIsConfigurable(t *testing.T) {
	a := newApp("a", io.Discard)
	check := func(status int, text string) {
		t.Helper()
		w := send(t.Context(), a, "OPTIONS", "/health", "", "Accept", "x/y")
		want := fmt.Sprintf(`{"method":"OPTIONS","host":"example.com","accept":"x/y","text":%q}`+"\n", text)
		if w.Code != status || w.Body.String() != want {
			t.Errorf("%d %s, want %d %s", w.Code, w.Body, status, want)
		}
	}
	check(200, healthy)
	if w := send(t.Context(), a, "POST", "/set-health?status=503&text=some+text", ""); w.Code != 200 {
		t.Error(w.Code, w.Body)
	}
	check(503, "some text")
	for _, status := range []string{"", "x", "199", "600"} {
		if w := send(t.Context(), a, "POST", "/set-health?status="+status, ""); w.Code != 400 {
			t.Errorf("status %q: %d", status, w.Code)
		}
	}
	check(503, "some text")
}
