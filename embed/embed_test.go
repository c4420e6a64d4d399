package embed_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/config"
	"shardway/embed"
)

func writeIdentity(ctx *fasthttp.RequestCtx) {
	_, _ = fmt.Fprintf(ctx, "%s %s %s", ctx.Request.Header.Peek("Shardway-Node"), ctx.Request.Header.Peek("Shardway-Key"), ctx.PostBody())
}

// Several nodes can run in one process. All of them report the same owner and epoch of each key.
func TestNodesInOneProcess(t *testing.T) {
	t.Parallel()
	a := start(t, "a", writeIdentity, nil)
	b := start(t, "b", writeIdentity, nil, a)
	until(t, "both own shards", func() error { return is(len(a.Owned()) == 8 && len(b.Owned()) == 8) })
	for _, key := range []string{"alice", "bob", "carol", "dave", "eve"} {
		owner, epoch := a.Owner(key), a.Epoch(key)
		if owner == "" || owner != b.Owner(key) || epoch == 0 || epoch != b.Epoch(key) || a.ShardOf(key) != b.ShardOf(key) {
			t.Errorf("%s: %s in %d at a, %s in %d at b", key, owner, epoch, b.Owner(key), b.Epoch(key))
		}
		for _, m := range []*member{a, b} {
			if status, body := m.ask(t, "POST", "/", key, "hi"); status != 200 || body != owner+" "+key+" hi" {
				t.Errorf("%s at %s: %d %q, want its owner %s", key, m.ID(), status, body, owner)
			}
		}
		owns := false
		for _, s := range map[string]*member{"a": a, "b": b}[owner].Owned() {
			owns = owns || s.Number == a.ShardOf(key) && s.Epoch == epoch
		}
		if !owns {
			t.Errorf("Owned of %s lacks the shard of %s", owner, key)
		}
	}
}

// The sum of all changes that Watch reports equals Owned.
func TestWatchReportsEachChange(t *testing.T) {
	t.Parallel()
	a := start(t, "a", writeIdentity, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	owned, sum := map[embed.Shard]bool{}, make(chan int, 100)
	go func() {
		defer close(sum)
		for c := range a.Watch(ctx) {
			for _, s := range c.Lost {
				if !owned[s] {
					t.Errorf("lost %v, which was never gained", s)
				}
				delete(owned, s)
			}
			for _, s := range c.Gained {
				owned[s] = true
			}
			sum <- len(owned)
		}
	}()
	await := func(want int) {
		t.Helper()
		for n := range sum {
			if n == want {
				return
			}
		}
		t.Fatalf("never owned %d", want)
	}
	await(16)
	b := start(t, "b", writeIdentity, nil, a)
	await(8)
	b.stop()
	<-b.done
	await(16)
	cancel()
	for n := range sum {
		t.Logf("%d at the end", n)
	}
}

// A shard moves only after its handler has returned: the handler of the next owner is called after
// that. Done asks the handler to return.
func TestShardMovesWhenItsHandlerHasReturned(t *testing.T) {
	t.Parallel()
	var running, overlaps atomic.Int32
	cancelled, returns := make(chan struct{}), make(chan struct{})
	handler := func(ctx *fasthttp.RequestCtx) {
		if running.Add(1) > 1 {
			overlaps.Add(1)
		}
		defer running.Add(-1)
		if string(ctx.Path()) == "/hang" {
			<-ctx.Done()
			close(cancelled)
			<-returns
		}
		writeIdentity(ctx)
	}
	quick := func(c *embed.Config) { c.DrainTimeout = 500 * time.Millisecond }
	a := start(t, "a", handler, quick)
	b := start(t, "b", handler, quick, a)
	until(t, "both own shards", func() error { return is(len(a.Owned()) == 8 && len(b.Owned()) == 8) })
	key := "k0"
	for i := 0; a.Owner(key) != "b"; i++ {
		key = fmt.Sprintf("k%d", i)
	}
	hung := make(chan string, 1)
	go func() {
		_, body, err := a.try(context.Background(), "POST", "/hang", key, "")
		hung <- fmt.Sprint(body, err)
	}()
	until(t, "the handler runs", func() error { return is(running.Load() == 1) })
	next := make(chan string, 1)
	b.stop()    // its shards go to a
	<-cancelled // at drain-timeout
	go func() {
		_, body, err := a.try(context.Background(), "POST", "/", key, "")
		next <- fmt.Sprint(body, err)
	}()
	for range 1000 {
		runtime.Gosched()
	}
	if n := running.Load(); n != 1 {
		t.Errorf("%d handlers run", n)
	}
	close(returns)
	if got := <-hung; !strings.Contains(got, `"code":"shard-moved"`) {
		t.Errorf("response of the cancelled request: %s", got)
	}
	if got := <-next; got != "a "+key+" <nil>" {
		t.Errorf("response of the next request: %q", got)
	}
	if overlaps.Load() > 0 {
		t.Error("two handlers ran at the same time")
	}
}

// A handler cannot be stopped from outside. If a handler does not return when the node stops, the node
// ends the process.
func TestProcessEndsWhenAHandlerDoesNotReturn(t *testing.T) {
	t.Parallel()
	returns, exited := make(chan struct{}), make(chan error, 1)
	began := make(chan struct{})
	a := start(t, "a", func(*fasthttp.RequestCtx) {
		close(began)
		<-returns
	}, func(c *embed.Config) {
		c.DrainTimeout, c.ShutdownTimeout = 500*time.Millisecond, 2500*time.Millisecond
		c.Exit = func(why error) {
			select {
			case exited <- why:
			default:
			}
		}
	})
	go func() { _, _, _ = a.try(context.Background(), "GET", "/", "k", "") }()
	<-began
	a.stop()
	if why := <-exited; why == nil || !strings.Contains(why.Error(), "ctx.Done") || !strings.Contains(a.log.String(), "process ends") {
		t.Errorf("why = %v\n%s", why, a.log)
	}
	select {
	case <-a.done:
		t.Error("Run returned before the handler had")
	default:
	}
	close(returns)
	<-a.done
}

func TestHTTPHandlers(t *testing.T) {
	t.Parallel()
	var running atomic.Int32
	ended, begun := make(chan struct{}), make(chan struct{})
	a := start(t, "a", embed.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Add(-1)
		switch r.URL.Path {
		case "/hijack":
			_, _, err := http.NewResponseController(w).Hijack()
			http.Error(w, err.Error(), http.StatusNotImplemented)
		case "/panic":
			panic("no such thing")
		case "/late":
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			<-begun // before that the whole answer may still become a 500
			panic("too late")
		case "/stream":
			_, _ = io.WriteString(w, "one ")
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "two")
		case "/wait":
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(ended)
		default:
			body, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.Header.Get("Shardway-Key"), body)
		}
	})), nil)
	if status, body := a.ask(t, "PUT", "/", "k", "hi"); status != 200 || body != "PUT k hi" {
		t.Errorf("%d %q", status, body)
	}
	if status, body := a.ask(t, "GET", "/stream", "k", ""); status != 200 || body != "one two" {
		t.Errorf("stream: %d %q", status, body)
	}
	if status, body := a.ask(t, "GET", "/hijack", "k", ""); status != 501 || !strings.Contains(body, "--upstream") {
		t.Errorf("hijack: %d %q", status, body)
	}
	if status, body := a.ask(t, "GET", "/panic", "k", ""); status != 500 || !strings.Contains(body, "app-failed") {
		t.Errorf("panic: %d %q", status, body)
	}
	late, err := a.open(t.Context(), "GET", "/late", "k", "")
	close(begun)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(late.Body); err == nil {
		t.Errorf("a truncated response looks complete: %d %q", late.StatusCode, body)
	}
	_ = late.Body.Close()
	if !strings.Contains(a.log.String(), "no such thing") || !strings.Contains(a.log.String(), "embed_test.go") {
		t.Errorf("no stack in the log: %s", a.log)
	}
	ctx, leave := context.WithCancel(t.Context())
	go func() { _, _, _ = a.try(ctx, "GET", "/wait", "k", "") }()
	until(t, "it waits", func() error { return is(running.Load() == 1) })
	leave()
	<-ended
}

// An http.Handler may keep the strings of a request, as with net/http. The adaptor of fasthttp passes
// strings whose memory the next request reuses. Once, an app in a test of clusters stored a value under
// such a string, and later read an older value.
func TestHTTPHandlersMayKeepStrings(t *testing.T) {
	t.Parallel()
	var kept []string
	a := start(t, "a", embed.HTTP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		kept = append(kept, r.Method+r.URL.Path+r.Host, r.Method, r.URL.Path, r.URL.RawQuery, r.RequestURI, r.Host, r.Header.Get("X-User"), r.Header.Get("Shardway-Key"))
	})), nil)
	var want []string
	for i := range 20 {
		key, host := fmt.Sprintf("key-%02d", i), a.Addr().String()
		path, query := fmt.Sprintf("/path-%02d", i), fmt.Sprintf("q=%02d", i)
		method := []string{"GET", "PUT"}[i%2]
		if status, body := a.ask(t, method, path+"?"+query, key, ""); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		want = append(want, method+path+host, method, path, query, path+"?"+query, host, key, key)
	}
	if !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
}

func TestStreamAndGo(t *testing.T) {
	t.Parallel()
	begun, written := make(chan struct{}), make(chan error, 1)
	a := start(t, "a", func(ctx *fasthttp.RequestCtx) {
		switch string(ctx.Path()) {
		case "/panic":
			embed.Stream(ctx, func(w *bufio.Writer) {
				_, _ = w.WriteString("half")
				_ = w.Flush()
				panic("no such thing")
			})
		case "/long":
			embed.Stream(ctx, func(w *bufio.Writer) {
				close(begun)
				var err error
				for err == nil {
					_, _ = w.WriteString("more ")
					err = w.Flush()
				}
				written <- err
			})
		default:
			embed.Go(ctx, func() {})
			embed.Stream(ctx, func(w *bufio.Writer) { _, _ = w.WriteString("all") })
		}
	}, nil)
	if status, body := a.ask(t, "GET", "/", "k", ""); status != 200 || body != "all" {
		t.Errorf("%d %q", status, body)
	}
	if status, body, err := a.try(t.Context(), "GET", "/panic", "k", ""); err == nil && status == 200 {
		t.Errorf("a truncated response looks complete: %d %q", status, body)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	go func() { // ends with the request's run
		<-begun
		leave()
	}()
	_, _, _ = a.try(ctx, "GET", "/long", "k", "")
	if err := <-written; err == nil {
		t.Error("Flush goes on after the client has left")
	}
}

// The error of an invalid Config names each field, its value and a remedy.
func TestConfigErrorsNameFieldAndRemedy(t *testing.T) {
	_, err := embed.New(embed.Config{Lease: time.Hour, Weight: -1, Key: []string{"nonsense"}, Takeover: "wooden", Args: []string{"--upstream", "http://127.0.0.1:1"}})
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{"Config.Lease", "1h", "Config.Weight", "Config.Key", "nonsense", "Config.Takeover", "wooden", "in this process", ";"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if _, err := embed.New(embed.Config{}); err == nil || !strings.Contains(err.Error(), "Config.Handler") {
		t.Errorf("without a handler: %v", err)
	}
}

// With OnShutdown "hold", the shards of a node that stops wait for its next Run.
func TestHoldingNodeReportsHold(t *testing.T) {
	t.Parallel()
	a := start(t, "a", func(*fasthttp.RequestCtx) {}, func(c *embed.Config) { c.OnShutdown, c.HoldGrace = "hold", 3*time.Second })
	a.stop()
	<-a.done
	if log := a.log.String(); !strings.Contains(log, "restarting in place") || !strings.Contains(log, `"grace":3000`) {
		t.Errorf("the node hands over:\n%s", log)
	}
}

// Config has a field for each setting of a node, and no other fields.
func TestConfigHasEverySetting(t *testing.T) {
	own := map[string]bool{"Handler": true, "Acquire": true, "Release": true, "Lost": true, "NodeJoined": true, "NodeRejoined": true, "NodeLeft": true, "RebalanceStarted": true, "RebalanceCompleted": true, "ClusterHealthChanged": true, "StreamBodies": true, "Exit": true, "Log": true, "Args": true, "Environ": true, "File": true, "Routes": true, "Headers": true}
	for _, s := range config.Settings() {
		switch s.Name {
		case "upstream", "health", "health-interval", "health-timeout", "health-fall", "health-rise", "health-method", "health-host", "health-header", "health-status", "health-body", "hooks", "config", // those of an app in another process, and File
			"exec", "exec-per", "exec-dir", "exec-ready", "exec-idle", "exec-max":
			continue
		}
		name := strings.ReplaceAll(s.Name, "-", "")
		field, ok := reflect.TypeFor[embed.Config]().FieldByNameFunc(func(f string) bool {
			return strings.EqualFold(f, name) || strings.EqualFold(f, name+"s")
		})
		if !ok {
			t.Errorf("Config has no field for --%s", s.Name)
		}
		own[field.Name] = true
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[embed.Config]()) {
		if !own[f.Name] {
			t.Errorf("Config.%s is no setting", f.Name)
		}
	}
}

// Each shard of two nodes with one replica has the other node as standby.
func TestStandbysOfEachShard(t *testing.T) {
	t.Parallel()
	withReplicas := func(c *embed.Config) { c.Replicas = 1 }
	a := start(t, "a", writeIdentity, withReplicas)
	b := start(t, "b", writeIdentity, withReplicas, a)
	until(t, "both own shards", func() error { return is(len(a.Owned()) == 8 && len(b.Owned()) == 8) })
	until(t, "both know the map", func() error { return is(a.OwnerOf(0) != "" && a.OwnerOf(0) == b.OwnerOf(0)) })
	for shard := range 16 {
		want := map[string]string{"a": "b", "b": "a"}[a.OwnerOf(shard)]
		if got := a.StandbysOf(shard); len(got) != 1 || got[0] != want {
			t.Errorf("standbys %v of shard %d, want %s", got, shard, want)
		}
	}
	if got := a.StandbysOf(16); got != nil {
		t.Errorf("standbys %v of a shard that does not exist", got)
	}
}
