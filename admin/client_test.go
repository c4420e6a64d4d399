package admin_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
	"shardway/admin/client"
	"shardway/internal/problem"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// start serves the cluster on loopback until the test ends. It returns a client, and a function that
// stops the server and waits for its end.
func start(t *testing.T, c api.Cluster) (*client.Client, func()) {
	t.Helper()
	ln := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	s := admin.New(admin.Options{API: apitest.SetOf(c), Log: zerolog.Nop()})
	go func() { done <- s.Serve(ctx, ln) }()
	client := clientFor(t, ln.Addr().String())
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v, want nil", err)
		}
	}
	t.Cleanup(stop)
	return client, stop
}

func clientFor(t *testing.T, addr string) *client.Client {
	t.Helper()
	c, err := client.New(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestClientDecodesServerResponses(t *testing.T) {
	f := newFake()
	c, _ := start(t, f)
	ctx := t.Context()
	st, err := c.Status(ctx)
	if err != nil || st.Node != "n1" || len(st.Nodes) != 2 || st.Nodes[0].Endpoints["http"] != "127.0.0.1:8080" {
		t.Errorf("Status = %+v, %v", st, err)
	}
	if l, err := c.Nodes(ctx); err != nil || l.Leader != "n1" || len(l.Nodes) != 2 {
		t.Errorf("Nodes = %+v, %v", l, err)
	}
	if l, err := c.Shards(ctx, ""); err != nil || len(l.Shards) != 4 {
		t.Errorf("Shards = %+v, %v", l, err)
	}
	if l, err := c.Shards(ctx, "n2"); err != nil || len(l.Shards) != 2 {
		t.Errorf("Shards(n2) = %+v, %v", l, err)
	}
	if l, err := c.Endpoints(ctx, "http"); err != nil || len(l.Endpoints) != 1 {
		t.Errorf("Endpoints(http) = %+v, %v", l, err)
	}
	if m, err := c.Map(ctx); err != nil || m.Epoch != 17 || m.Owners[3] != -1 {
		t.Errorf("Map = %+v, %v", m, err)
	}
	if l, err := c.Locate(ctx, keyOf(2)+""); err != nil || l.Owner != "n2" {
		t.Errorf("Locate = %+v, %v", l, err)
	}
	if l, err := c.Locate(ctx, "a&b=c %"); err != nil || l.Key != "a&b=c %" {
		t.Errorf("Locate of an odd key = %+v, %v", l, err)
	}
	if err := c.Ready(ctx); err != nil {
		t.Errorf("Ready = %v", err)
	}
}

func TestClientActs(t *testing.T) {
	f := newFake()
	c, _ := start(t, f)
	for _, a := range []api.Action{{Verb: api.Remove, Node: "n3", Force: true}, {Verb: api.StepDown}, {Verb: api.Drain, Node: "n3", IdleFirst: "2m0s"}} {
		if _, err := c.Do(t.Context(), a); err != nil {
			t.Errorf("Do(%+v) = %v", a, err)
		}
	}
	did := f.actions()
	if len(did) != 3 || did[2].IdleFirst != "2m0s" || did[0].Node != "n3" || !did[0].Force || did[1].Verb != api.StepDown || !strings.HasPrefix(did[0].By, "anybody from 127.0.0.1:") {
		t.Errorf("did %+v", did)
	}
}

func TestClientHandsProblemsOn(t *testing.T) {
	f := newFake()
	f.refuse = api.ErrNoLeader
	f.notReady = errors.New("no lease")
	c, _ := start(t, f)
	var p *problem.Problem
	if _, err := c.Do(t.Context(), api.Action{Verb: api.StepDown}); !errors.As(err, &p) || p.Code != problem.NoLeader {
		t.Errorf("Do = %v, want the problem no-leader", err)
	}
	if err := c.Ready(t.Context()); err == nil || err.Error() != "not-ready: no lease" {
		t.Errorf("Ready = %v, want the reason", err)
	}
}

func TestClientLongPollSeesTheCommit(t *testing.T) {
	f := newFake()
	f.waiting = make(chan uint64)
	c, _ := start(t, f)
	go func() {
		<-f.waiting
		f.commit(30)
	}()
	if m, err := c.MapAfter(t.Context(), 17, time.Minute); err != nil || m.Epoch != 30 {
		t.Errorf("MapAfter = %+v, %v, want epoch 30", m, err)
	}
}

func TestServeEndsLongPollsWhenStopped(t *testing.T) {
	f := newFake()
	f.waiting = make(chan uint64)
	c, stop := start(t, f)
	failed := make(chan error, 1)
	go func() {
		_, err := c.MapAfter(t.Context(), 17, time.Minute)
		failed <- err
	}()
	<-f.waiting
	stop()
	var p *problem.Problem
	if err := <-failed; !errors.As(err, &p) || p.Code != problem.NotReady {
		t.Errorf("MapAfter at a server that stops = %v, want not-ready", err)
	}
}

// probed is a node as seen by health probes.
type probed struct {
	api.Readiness
	*self
}

func TestProbesServeNothingElse(t *testing.T) {
	ln := listen(t)
	f := newFake()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- admin.ServeProbes(ctx, ln, probed{f, &self{}}, zerolog.Nop()) }()
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/status": 404, "/debug/pprof/": 404, "/": 404} {
		res, err := http.Get("http://" + ln.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("GET %s = %s, want %d", path, res.Status, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("ServeProbes = %v, want nil", err)
	}
}

func TestPanicIsCutAndTheServerGoesOn(t *testing.T) {
	f := newFake()
	f.panics = true
	c, _ := start(t, f)
	if _, err := c.Status(t.Context()); err == nil {
		t.Error("Status of a node that panics gave an answer")
	}
	if err := c.Ready(t.Context()); err != nil {
		t.Errorf("Ready after a panic = %v", err)
	}
}

func FuzzActionBody(f *testing.F) {
	f.Add([]byte(`{"node":"n3","force":true}`))
	f.Add([]byte(`{"node":null}`))
	f.Add([]byte(`[`))
	c := newFake()
	h := handlerOf(c)
	f.Fuzz(func(t *testing.T, b []byte) {
		res := fetchJSON(t, h, "POST", "/v1/remove", string(b), "Content-Type", "application/json")
		if res.Code != 200 {
			_ = problemOf(t, res)
		}
	})
}
