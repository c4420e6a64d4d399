package embed_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/embed"
	"shardway/internal/freeport"
)

// TestMain runs more tests at the same time than there are processors, because nodes wait most of the
// time.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	m.Run()
}

// member is a node of a test.
type member struct {
	*embed.Node
	gossip string
	stop   context.CancelFunc
	done   chan struct{}
	log    *lines
}

// lines is a log that several goroutines write.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// start runs a node; more changes its Config. It joins those that are given.
func start(tb testing.TB, id string, h fasthttp.RequestHandler, more func(*embed.Config), join ...*member) *member {
	tb.Helper()
	p := freeport.Addrs(tb, 4)
	m := &member{gossip: p[3], done: make(chan struct{}), log: new(lines)}
	c := embed.Config{
		Handler: h, Log: m.log, LogFormat: "json", Node: id, Data: tb.TempDir(), Shards: 16, Key: []string{"header:X-User"},
		Listen: p[0], Admin: p[1], Peer: p[2], Gossip: p[3],
	}
	for _, other := range join {
		c.Join = append(c.Join, other.gossip)
	}
	if more != nil {
		more(&c)
	}
	var err error
	if m.Node, err = embed.New(c); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	go func() {
		defer close(m.done)
		if err := m.Run(ctx); err != nil {
			tb.Errorf("Run of %s: %v\n%s", id, err, m.log)
		}
	}()
	tb.Cleanup(func() {
		cancel()
		<-m.done
	})
	until(tb, "node "+id+" is ready", m.Ready)
	return m
}

// until waits for a condition.
func until(tb testing.TB, what string, cond func() error) {
	tb.Helper()
	deadline := time.Now().Add(time.Minute)
	for err := cond(); err != nil; err = cond() {
		if time.Now().After(deadline) {
			tb.Fatalf("never: %s: %v", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func is(ok bool) error {
	if !ok {
		return errors.New("not yet")
	}
	return nil
}

// ask sends a request for a key and returns status and body.
func (m *member) ask(tb testing.TB, method, path, key, body string) (int, string) {
	tb.Helper()
	status, text, err := m.try(tb.Context(), method, path, key, body)
	if err != nil {
		tb.Fatalf("%s %s: %v", method, path, err)
	}
	return status, text
}

// open asks, and returns once the head of the answer is there.
func (m *member) open(ctx context.Context, method, path, key, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+m.Addr().String()+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-User", key)
	r.Close = true
	return http.DefaultClient.Do(r)
}

func (m *member) try(ctx context.Context, method, path, key, body string) (int, string, error) {
	res, err := m.open(ctx, method, path, key, body)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}
