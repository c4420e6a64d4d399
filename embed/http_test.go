package embed_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"shardway/embed"
)

// The context of a request ends when its handler returns, as with net/http. Otherwise a goroutine that
// waits for the context would wait until another request on the connection ends.
func TestHTTPContextsEndWithTheirHandlers(t *testing.T) {
	t.Parallel()
	contexts := make(chan context.Context, 1)
	a := start(t, "a", embed.HTTP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if embed.RequestCtx(r.Context()) == nil {
			t.Error("no RequestCtx")
		}
		contexts <- r.Context()
	})), nil)
	if status, body := a.ask(t, "GET", "/", "k", ""); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	ended := <-contexts
	<-ended.Done()
	if ended.Err() == nil {
		t.Error("the context is done and has no error")
	}
}

// A long body is passed as a stream. A complete copy in memory could use all memory of the process.
func TestHTTPHandlersReadStreams(t *testing.T) {
	t.Parallel()
	a := start(t, "a", embed.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first := make([]byte, 5)
		_, err := io.ReadFull(r.Body, first)
		_, _ = fmt.Fprintf(w, "%d %s %v ", r.ContentLength, first, err)
		n, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n, " ", err)
	})), func(c *embed.Config) { c.StreamBodies = true })
	long := "hello" + strings.Repeat("x", 8<<20)
	for length, body := range map[int64]io.Reader{int64(len(long)): strings.NewReader(long), -1: iotest.DataErrReader(strings.NewReader(long))} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.Addr().String(), body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-User", "k")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if want := fmt.Sprintf("%d hello <nil> 8388608 <nil>", length); err != nil || string(got) != want {
			t.Errorf("%.200q, %v, want %q", got, err, want)
		}
	}
}

// An interim response of a handler does not reach the client. A request target that net/http cannot
// parse is an error of the client.
func TestHTTPHandlersSendFinalResponsesOnly(t *testing.T) {
	t.Parallel()
	a := start(t, "a", embed.HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
	})), nil)
	if status, body := a.ask(t, "GET", "/", "k", ""); status != http.StatusTeapot {
		t.Errorf("after hints: %d %s", status, body)
	}
	conn, err := net.Dial("tcp", a.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "GET /%zz HTTP/1.1\r\nHost: h\r\nX-User: k\r\nConnection: close\r\n\r\n")
	if got, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 400 ") {
		t.Errorf("%q, %v", got, err)
	}
}
