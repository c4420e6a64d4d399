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

	"shardway/e2e/kit/history"
	"shardway/e2e/kit/store"
)

// sendOperation sends one operation on the register of alice: a write of value, or a read if value
// is empty.
func sendOperation(ctx context.Context, a *app, mode, epoch, value string) *httptest.ResponseRecorder {
	method := http.MethodPost
	if value == "" {
		method = http.MethodGet
	}
	req := httptest.NewRequestWithContext(ctx, method, "/", strings.NewReader(value))
	for name, v := range map[string]string{
		"Shardway-Shard": "7", "Shardway-Epoch": epoch, "Shardway-Node": a.name, "Shardway-Key": "alice",
		"App-Id": "x", "App-Register": mode,
	} {
		req.Header.Set(name, v)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, req)
	return w
}

// newAppsWithStore returns apps whose registers use the same store.
func newAppsWithStore(t *testing.T, names ...string) (*store.Store, []*app) {
	t.Helper()
	registerStore, err := store.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client := store.NewClient(registerStore.URL())
	t.Cleanup(func() {
		client.Close()
		if err := registerStore.Close(); err != nil {
			t.Error(err)
		}
	})
	var apps []*app
	for _, name := range names {
		a := newApp(name, io.Discard)
		a.registers = newRegisters(client)
		apps = append(apps, a)
	}
	return registerStore, apps
}

func expectRead(t *testing.T, a *app, mode, epoch, want string) {
	t.Helper()
	w := sendOperation(t.Context(), a, mode, epoch, "")
	got, ok := w.Header()["App-Value"]
	if w.Code != 200 || !ok || got[0] != want {
		t.Errorf("%s of app %s at epoch %s: %d %q %s, want %q", mode, a.name, epoch, w.Code, got, w.Body, want)
	}
}

func expectWrite(t *testing.T, a *app, mode, epoch, value string) {
	t.Helper()
	if w := sendOperation(t.Context(), a, mode, epoch, value); w.Code != 200 || w.Header().Get("App-Id") != "x" || w.Header()["App-Value"] != nil {
		t.Errorf("%s of app %s at epoch %s: %d %v %s", mode, a.name, epoch, w.Code, w.Header(), w.Body)
	}
}

// expectFenced verifies the response to a rejected operation, as packages history and
// linear recognize it.
func expectFenced(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	var body struct{ Error string }
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Error != "fenced" {
		t.Errorf("body = %s, %v, want fenced", w.Body, err)
	}
	resp := history.Response{ID: "x", Status: w.Code, App: w.Header().Get("App-Name"), EchoID: w.Header().Get("App-Id")}
	if !resp.Fenced() {
		t.Errorf("answer = %d %v, want a fenced one", w.Code, w.Header())
	}
}

func TestWriteReachesTheStoreBeforeTheResponse(t *testing.T) {
	registerStore, apps := newAppsWithStore(t, "a")
	for _, mode := range []string{"memory", "store"} {
		expectWrite(t, apps[0], mode, "5", "by-"+mode)
		if log := registerStore.Applied(); log[len(log)-1].Value != "by-"+mode || log[len(log)-1].Epoch != 5 || log[len(log)-1].Writer != "a" {
			t.Errorf("applied %+v", log)
		}
		expectRead(t, apps[0], "memory", "5", "by-"+mode)
		expectRead(t, apps[0], "store", "5", "by-"+mode)
	}
	if run := apps[0].runs[0]; run.Key != "alice" || run.Epoch != 5 || run.End == 0 || run.Aborted {
		t.Errorf("run = %+v", run)
	}
}

// TestEachEpochStartsWithTheValueInTheStore moves a key from app a to app b and back.
func TestEachEpochStartsWithTheValueInTheStore(t *testing.T) {
	_, apps := newAppsWithStore(t, "a", "b")
	a, b := apps[0], apps[1]
	expectRead(t, a, "memory", "5", "")
	expectWrite(t, a, "memory", "5", "one")
	expectRead(t, b, "memory", "6", "one")
	expectWrite(t, b, "memory", "6", "two")
	expectRead(t, a, "memory", "7", "two")
}

// TestOnlyTheStoreRejectsAnOlderEpoch verifies that the app trusts the proxy: memory accepts an
// older epoch, the store does not. This is how clients can observe a second owner.
func TestOnlyTheStoreRejectsAnOlderEpoch(t *testing.T) {
	registerStore, apps := newAppsWithStore(t, "a", "b")
	a, b := apps[0], apps[1]
	expectWrite(t, a, "memory", "5", "one")
	expectWrite(t, b, "memory", "6", "two")
	expectRead(t, a, "memory", "5", "one")
	expectFenced(t, sendOperation(t.Context(), a, "store", "5", ""))
	expectFenced(t, sendOperation(t.Context(), a, "memory", "5", "three"))
	expectFenced(t, sendOperation(t.Context(), b, "memory", "5", "")) // not loaded before the store received epoch 6
	expectRead(t, a, "memory", "5", "one")                            // the rejected write changed nothing
	expectRead(t, b, "memory", "6", "two")
	if n := len(registerStore.Applied()); n != 2 {
		t.Errorf("%d writes applied, want 2", n)
	}
}

// TestUnfencedRegisterAcceptsAnOlderEpoch writes as the old owner after the new owner has written.
// Only the cluster can prevent this.
func TestUnfencedRegisterAcceptsAnOlderEpoch(t *testing.T) {
	registerStore, apps := newAppsWithStore(t, "a", "b", "c")
	expectWrite(t, apps[0], "unfenced", "5", "one")
	expectRead(t, apps[1], "unfenced", "6", "one")
	expectWrite(t, apps[1], "unfenced", "6", "two")
	expectWrite(t, apps[0], "unfenced", "5", "late")
	expectRead(t, apps[1], "unfenced", "6", "two") // from memory
	expectRead(t, apps[2], "unfenced", "7", "late")
	if n := registerStore.FencedCount(); n != 0 {
		t.Errorf("%d refused, want none", n)
	}
}

func TestInvalidOperationsAreRejected(t *testing.T) {
	_, apps := newAppsWithStore(t, "a")
	long := strings.Repeat("x", store.MaxValue+1)
	for _, c := range []struct{ mode, value string }{
		{"disk", ""}, {"memory", long}, {"memory", "two words"}, {"store", "ü"}, {"store", "a\r\nb"},
	} {
		if w := sendOperation(t.Context(), apps[0], c.mode, "5", c.value); w.Code != 400 {
			t.Errorf("%q %q: %d %s", c.mode, c.value, w.Code, w.Body)
		}
	}
	if w := sendOperation(t.Context(), newApp("a", io.Discard), "memory", "5", ""); w.Code != 400 {
		t.Errorf("without a store: %d %s", w.Code, w.Body)
	}
	expectRead(t, apps[0], "memory", "5", "")
}

// proxyTo returns a reverse proxy to a store.
func proxyTo(t *testing.T, registerStore *store.Store) http.Handler {
	t.Helper()
	u, err := url.Parse(registerStore.URL())
	if err != nil {
		t.Fatal(err)
	}
	return httputil.NewSingleHostReverseProxy(u)
}

// delayWrites delays writes until release is closed.
type delayWrites struct {
	http.Handler
	arrived chan struct{} // receives one element per write
	release chan struct{} // closed when writes may continue
}

func (s *delayWrites) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method == http.MethodPost {
		s.arrived <- struct{}{}
		<-s.release
	}
	s.Handler.ServeHTTP(w, req)
}

// A client disconnects while its write is on the way to the store. The run is recorded as
// aborted, and the next read waits for the write.
func TestWriteContinuesAfterClientDisconnects(t *testing.T) {
	registerStore, apps := newAppsWithStore(t, "a")
	a := apps[0]
	behind := &delayWrites{Handler: proxyTo(t, registerStore), arrived: make(chan struct{}), release: make(chan struct{})}
	srv := httptest.NewServer(behind)
	defer srv.Close()
	client := store.NewClient(srv.URL)
	defer client.Close()
	a.registers = newRegisters(client)
	ctx, leave := context.WithCancel(t.Context())
	var ops sync.WaitGroup
	ops.Go(func() { sendOperation(ctx, a, "memory", "5", "one") })
	<-behind.arrived
	leave()
	ops.Go(func() { expectRead(t, a, "memory", "5", "one") })
	close(behind.release)
	ops.Wait()
	if run := a.runs[0]; !run.Aborted || run.End == 0 {
		t.Errorf("run = %+v, want it cut", run)
	}
}

// TestUnconfirmedWriteIsReadFromTheStore uses a store that applies a write and closes the
// connection without a response. The app must then read the value from the store.
func TestUnconfirmedWriteIsReadFromTheStore(t *testing.T) {
	registerStore, apps := newAppsWithStore(t, "a")
	a := apps[0]
	direct := proxyTo(t, registerStore)
	var deaf atomic.Bool
	deaf.Store(true)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost && deaf.Swap(false) {
			direct.ServeHTTP(httptest.NewRecorder(), req)
			panic(http.ErrAbortHandler)
		}
		direct.ServeHTTP(w, req)
	}))
	defer srv.Close()
	client := store.NewClient(srv.URL)
	defer client.Close()
	a.registers = newRegisters(client)
	expectRead(t, a, "memory", "5", "")
	if w := sendOperation(t.Context(), a, "memory", "5", "one"); w.Code != 503 {
		t.Errorf("unanswered write: %d %s", w.Code, w.Body)
	}
	expectRead(t, a, "memory", "5", "one")
}

func TestConcurrentOperationsLeaveMemoryEqualToTheStore(t *testing.T) {
	registerStore, apps := newAppsWithStore(t, "a")
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
				if w := sendOperation(t.Context(), apps[0], mode, "5", value); w.Code != 200 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
	clients.Wait()
	log := registerStore.Applied()
	if len(log) != 80 {
		t.Fatalf("%d writes applied, want 80", len(log))
	}
	expectRead(t, apps[0], "memory", "5", log[len(log)-1].Value)
	expectRead(t, apps[0], "store", "5", log[len(log)-1].Value)
}
