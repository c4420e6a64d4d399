package webhook_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/event"
	"shardway/event/webhook"
	"shardway/internal/freeport"
)

// start runs a sender for a URL until the test ends.
func start(t *testing.T, o webhook.Options) (*event.Ring, *webhook.Sender) {
	t.Helper()
	o.Ring = event.NewRing(event.Options{Node: "a", RunID: 7})
	o.Log, o.UserAgent = zerolog.Nop(), "shardway/1"
	sender, err := webhook.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		sender.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return o.Ring, sender
}

// until waits for a condition.
func until(t *testing.T, what string, isTrue func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !isTrue(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// serve starts a receiver at an address.
func serve(t *testing.T, addr string, handler http.Handler) *httptest.Server {
	t.Helper()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}}
	server.Start()
	return server
}

// A real receiver fails, hangs, breaks connections, and restarts. It gets every event, and knows repeated ones by their
// ids.
func TestReceiverThatFailsHangsAndRestarts(t *testing.T) {
	t.Parallel()
	var mode atomic.Int32 // 0 works, 1 fails, 2 hangs, 3 acknowledges too late, 4 breaks the connection
	var mu sync.Mutex
	received := map[string]string{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if user, password, _ := r.BasicAuth(); r.URL.Path != "/in/x" || r.URL.RawQuery != "t=1" || user != "u" || password != "p" {
			t.Errorf("%s with %s:%s", r.URL, user, password)
		}
		record := func() {
			mu.Lock()
			defer mu.Unlock()
			for _, e := range decode(t, r.Header, body) {
				received[e.ID] = e.Data.Node
			}
		}
		switch mode.Load() {
		case 0:
			record()
			w.WriteHeader(http.StatusAccepted)
		case 1:
			http.Error(w, strings.Repeat("broken ", 100_000), http.StatusInternalServerError)
		case 2:
			<-r.Context().Done()
		case 3:
			record()
			<-r.Context().Done()
		case 4:
			panic(http.ErrAbortHandler)
		}
	})
	addr := freeport.Addrs(t, 1)[0] // no other process gets it between the two servers
	server := serve(t, addr, handler)
	ring, sender := start(t, webhook.Options{URL: "http://u:p@" + addr + "/in/x?t=1", RequestTimeout: 200 * time.Millisecond})
	hasEvent := func(n int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return received["0000000000000007-"+strconv.Itoa(n)] == strconv.Itoa(n)
		}
	}
	for n := 1; n <= 5; n++ {
		failure := int32(n - 1)
		mode.Store(failure)
		ring.Add(event.Event{Kind: event.NodeJoined, Node: strconv.Itoa(n)})
		if failure > 0 {
			until(t, "the receiver fails", func() bool { return sender.Status().FailingFor > 0 })
			mode.Store(0)
		}
		until(t, "event "+strconv.Itoa(n)+" arrives", hasEvent(n))
		until(t, "it is acknowledged", func() bool { return sender.Status().Undelivered == 0 })
	}
	server.Close()
	ring.Add(event.Event{Kind: event.NodeJoined, Node: "6"})
	until(t, "the connection is refused", func() bool { return strings.Contains(sender.Status().Error, "refused") })
	server = serve(t, addr, handler)
	defer server.Close()
	until(t, "event 6 arrives", hasEvent(6))
	if len(received) != 6 || sender.Status().Lost > 0 {
		t.Errorf("received %v", received)
	}
}

// The certificate of a receiver is verified.
func TestReceiverWithTLS(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer server.Close()
	ring, sender := start(t, webhook.Options{URL: server.URL + "/in-token", Transport: server.Client().Transport})
	ring.Add(event.Event{Kind: event.NodeJoined, Node: "b"})
	until(t, "the event is acknowledged", func() bool { return requests.Load() == 1 && sender.Status().Undelivered == 0 })

	ring, sender = start(t, webhook.Options{URL: server.URL + "/in-token"})
	ring.Add(event.Event{Kind: event.NodeJoined, Node: "b"})
	until(t, "the certificate is refused", func() bool { return strings.Contains(sender.Status().Error, "certificate") })
	if s := sender.Status(); requests.Load() != 1 || strings.Contains(s.Error, "token") {
		t.Errorf("%d requests, %+v", requests.Load(), s)
	}
}

// Only redirects that keep the request and the host are followed. A redirect must not send events or the password to
// another host, and a redirect to a GET request is no acknowledgement.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var elsewhere, here atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, x := range []struct {
		status   int
		location string
		error    string // empty means that the redirect is followed
	}{
		{307, "/end", ""},
		{308, "end", ""},
		{307, "/loop", "more than 3 redirects"},
		{301, "/end", "status 301 Moved Permanently, redirect not followed"},
		{302, "/end", "status 302 Found, redirect not followed"},
		{303, "/end", "status 303 See Other, redirect not followed"},
		{307, other.URL + "/end", "status 307 Temporary Redirect, redirect not followed"},
		{308, "//" + other.Listener.Addr().String() + "/end", "status 308 Permanent Redirect, redirect not followed"},
		{307, "ftp://x/", "status 307 Temporary Redirect, redirect not followed"},
		{307, "http://[", "status 307 Temporary Redirect, redirect not followed"},
		{307, "", "status 307 Temporary Redirect, redirect not followed"},
	} {
		here.Store(0)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, password, _ := r.BasicAuth()
			switch {
			case r.Method != http.MethodPost || len(body) == 0 || password != "p":
				t.Errorf("%s %s with %d bytes", r.Method, r.URL, len(body))
			case r.URL.Path == "/end":
				here.Add(1)
			case r.URL.Path == "/loop":
				w.Header().Set("Location", "/loop")
				w.WriteHeader(http.StatusTemporaryRedirect)
			default:
				w.Header().Set("Location", x.location)
				w.WriteHeader(x.status)
			}
		}))
		ring, sender := start(t, webhook.Options{URL: strings.Replace(server.URL, "://", "://u:p@", 1) + "/in"})
		ring.Add(event.Event{Kind: event.NodeJoined, Node: "b"})
		until(t, "there is a result", func() bool { s := sender.Status(); return s.Undelivered == 0 || s.FailingFor > 0 })
		if s := sender.Status(); s.Error != x.error || (here.Load() == 1) != (x.error == "") || elsewhere.Load() > 0 {
			t.Errorf("%d %q: error %q, %d here, %d elsewhere", x.status, x.location, s.Error, here.Load(), elsewhere.Load())
		}
		server.CloseClientConnections()
		server.Close()
	}
}
