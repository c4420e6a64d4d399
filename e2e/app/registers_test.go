//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"shardway/e2e/history"
	"shardway/e2e/store"
)

// operate asks for one operation on alice's register; value is written, or read
// if it is empty.
func operate(ctx context.Context, a *app, mode, epoch, value string) *httptest.ResponseRecorder {
	method := http.MethodPost
	if value == "" {
		method = http.MethodGet
	}
	r := httptest.NewRequestWithContext(ctx, method, "/", strings.NewReader(value))
	for name, v := range map[string]string{
		"Shardway-Shard": "7", "Shardway-Epoch": epoch, "Shardway-Node": a.name, "Shardway-Key": "alice",
		"App-Id": "x", "App-Register": mode,
	} {
		r.Header.Set(name, v)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

// kept makes apps whose registers are in one store.
func kept(t *testing.T, names ...string) (*store.Store, []*app) {
	t.Helper()
	s, err := store.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := store.NewClient(s.URL())
	t.Cleanup(func() {
		c.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	var apps []*app
	for _, name := range names {
		a := newApp(name, io.Discard)
		a.registers = newRegisters(c)
		apps = append(apps, a)
	}
	return s, apps
}

func reads(t *testing.T, a *app, mode, epoch, want string) {
	t.Helper()
	w := operate(t.Context(), a, mode, epoch, "")
	got, ok := w.Header()["App-Value"]
	if w.Code != 200 || !ok || got[0] != want {
		t.Errorf("%s of app %s at epoch %s: %d %q %s, want %q", mode, a.name, epoch, w.Code, got, w.Body, want)
	}
}

func writes(t *testing.T, a *app, mode, epoch, value string) {
	t.Helper()
	if w := operate(t.Context(), a, mode, epoch, value); w.Code != 200 || w.Header().Get("App-Id") != "x" || w.Header()["App-Value"] != nil {
		t.Errorf("%s of app %s at epoch %s: %d %v %s", mode, a.name, epoch, w.Code, w.Header(), w.Body)
	}
}

// fenced wants the refusal that history and register take for one.
func fenced(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	var body struct{ Error string }
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Error != "fenced" {
		t.Errorf("body = %s, %v, want fenced", w.Body, err)
	}
	a := history.Answer{ID: "x", Status: w.Code, App: w.Header().Get("App-Name"), EchoID: w.Header().Get("App-Id")}
	if !a.Fenced() {
		t.Errorf("answer = %d %v, want a fenced one", w.Code, w.Header())
	}
}

func TestWriteGoesThroughBeforeItsAnswer(t *testing.T) {
	s, apps := kept(t, "a")
	for _, mode := range []string{"memory", "store"} {
		writes(t, apps[0], mode, "5", "by-"+mode)
		if log := s.Applied(); log[len(log)-1].Value != "by-"+mode || log[len(log)-1].Epoch != 5 || log[len(log)-1].Writer != "a" {
			t.Errorf("applied %+v", log)
		}
		reads(t, apps[0], "memory", "5", "by-"+mode)
		reads(t, apps[0], "store", "5", "by-"+mode)
	}
	if run := apps[0].runs[0]; run.Key != "alice" || run.Epoch != 5 || run.End == 0 || run.Cut {
		t.Errorf("run = %+v", run)
	}
}

// TestHandoverLoadsFromTheStore has a key that goes from a to b and back: each
// epoch starts with what the store has.
func TestHandoverLoadsFromTheStore(t *testing.T) {
	_, apps := kept(t, "a", "b")
	a, b := apps[0], apps[1]
	reads(t, a, "memory", "5", "")
	writes(t, a, "memory", "5", "one")
	reads(t, b, "memory", "6", "one")
	writes(t, b, "memory", "6", "two")
	reads(t, a, "memory", "7", "two")
}

// TestOlderEpochIsFencedOnlyByTheStore shows the app's faith, which is what lets
// clients see a second owner: memory answers, the store does not.
func TestOlderEpochIsFencedOnlyByTheStore(t *testing.T) {
	s, apps := kept(t, "a", "b")
	a, b := apps[0], apps[1]
	writes(t, a, "memory", "5", "one")
	writes(t, b, "memory", "6", "two")
	reads(t, a, "memory", "5", "one")
	fenced(t, operate(t.Context(), a, "store", "5", ""))
	fenced(t, operate(t.Context(), a, "memory", "5", "three"))
	fenced(t, operate(t.Context(), b, "memory", "5", "")) // never loaded, too late now
	reads(t, a, "memory", "5", "one")                     // a refused write changed nothing
	reads(t, b, "memory", "6", "two")
	if n := len(s.Applied()); n != 2 {
		t.Errorf("%d writes applied, want 2", n)
	}
}

// TestUnfencedRegisterTakesWhatComes has an old owner that writes after the next one
// did: nothing but the cluster keeps it from that.
func TestUnfencedRegisterTakesWhatComes(t *testing.T) {
	s, apps := kept(t, "a", "b", "c")
	writes(t, apps[0], "unfenced", "5", "one")
	reads(t, apps[1], "unfenced", "6", "one")
	writes(t, apps[1], "unfenced", "6", "two")
	writes(t, apps[0], "unfenced", "5", "late")
	reads(t, apps[1], "unfenced", "6", "two") // from memory
	reads(t, apps[2], "unfenced", "7", "late")
	if n := s.Refused(); n != 0 {
		t.Errorf("%d refused, want none", n)
	}
}

func TestBadOperationsAreRefused(t *testing.T) {
	_, apps := kept(t, "a")
	long := strings.Repeat("x", store.MaxValue+1)
	for _, c := range []struct{ mode, value string }{
		{"disk", ""}, {"memory", long}, {"memory", "two words"}, {"store", "ü"}, {"store", "a\r\nb"},
	} {
		if w := operate(t.Context(), apps[0], c.mode, "5", c.value); w.Code != 400 {
			t.Errorf("%q %q: %d %s", c.mode, c.value, w.Code, w.Body)
		}
	}
	if w := operate(t.Context(), newApp("a", io.Discard), "memory", "5", ""); w.Code != 400 {
		t.Errorf("without a store: %d %s", w.Code, w.Body)
	}
	reads(t, apps[0], "memory", "5", "")
}

// forward stands before a store.
func forward(t *testing.T, s *store.Store) http.Handler {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	return httputil.NewSingleHostReverseProxy(u)
}

// slow keeps writes back.
type slow struct {
	http.Handler
	came chan struct{} // one for each write
	pass chan struct{} // closed when they may pass
}

func (s *slow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		s.came <- struct{}{}
		<-s.pass
	}
	s.Handler.ServeHTTP(w, r)
}

// TestCutWriteIsBroughtToItsEnd has a client that leaves while its write is on
// its way to the store: the run is cut, and whoever reads next waits for the write.
func TestCutWriteIsBroughtToItsEnd(t *testing.T) {
	s, apps := kept(t, "a")
	a := apps[0]
	behind := &slow{Handler: forward(t, s), came: make(chan struct{}), pass: make(chan struct{})}
	srv := httptest.NewServer(behind)
	defer srv.Close()
	c := store.NewClient(srv.URL)
	defer c.Close()
	a.registers = newRegisters(c)
	ctx, leave := context.WithCancel(t.Context())
	var ops sync.WaitGroup
	ops.Go(func() { operate(ctx, a, "memory", "5", "one") })
	<-behind.came
	leave()
	ops.Go(func() { reads(t, a, "memory", "5", "one") })
	close(behind.pass)
	ops.Wait()
	if run := a.runs[0]; !run.Cut || run.End == 0 {
		t.Errorf("run = %+v, want it cut", run)
	}
}

// TestUnansweredWriteIsLoadedAgain has a store that applies a write and does not
// say so: the app cannot know, and asks.
func TestUnansweredWriteIsLoadedAgain(t *testing.T) {
	s, apps := kept(t, "a")
	a := apps[0]
	direct := forward(t, s)
	var deaf atomic.Bool
	deaf.Store(true)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && deaf.Swap(false) {
			direct.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		direct.ServeHTTP(w, r)
	}))
	defer srv.Close()
	c := store.NewClient(srv.URL)
	defer c.Close()
	a.registers = newRegisters(c)
	reads(t, a, "memory", "5", "")
	if w := operate(t.Context(), a, "memory", "5", "one"); w.Code != 503 {
		t.Errorf("unanswered write: %d %s", w.Code, w.Body)
	}
	reads(t, a, "memory", "5", "one")
}

// TestOperationsTakeTurns has many clients of one key, in both modes: memory ends
// with what the store has.
func TestOperationsTakeTurns(t *testing.T) {
	s, apps := kept(t, "a")
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for j := range 20 {
				mode, value := "memory", ""
				if i%2 == 0 {
					mode = "store"
				}
				if j%2 == 0 {
					value = fmt.Sprintf("v%d-%d", i, j)
				}
				if w := operate(t.Context(), apps[0], mode, "5", value); w.Code != 200 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
	clients.Wait()
	log := s.Applied()
	if len(log) != 80 {
		t.Fatalf("%d writes applied, want 80", len(log))
	}
	reads(t, apps[0], "memory", "5", log[len(log)-1].Value)
	reads(t, apps[0], "store", "5", log[len(log)-1].Value)
}
