package process

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardway/ack/agent"
	"shardway/proxy"
)

// dialOf returns the function that connects to the app.
func dialOf(t *testing.T, upstream string) func(context.Context) (net.Conn, error) {
	t.Helper()
	dial, err := proxy.DialURL(upstream)
	if err != nil {
		t.Fatal(err)
	}
	return dial
}

// Hooks are sent to the address of the app with a path, or to a separate address over TCP or a
// Unix socket.
func TestHooksAreSentToTheConfiguredAddress(t *testing.T) {
	type asked struct{ host, path, body string }
	got := make(chan asked, 1)
	app := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := make([]byte, 1<<10)
		n, _ := r.Body.Read(body)
		got <- asked{r.Host, r.URL.Path, string(body[:n])}
	})
	tcp := httptest.NewServer(app)
	defer tcp.Close()
	socket := filepath.Join(t.TempDir(), "app.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	unix := &httptest.Server{Listener: ln, Config: &http.Server{Handler: app, ReadHeaderTimeout: time.Minute}}
	unix.Start()
	defer unix.Close()
	host := strings.TrimPrefix(tcp.URL, "http://")
	for _, test := range []struct{ upstream, hooks, host, path string }{
		{tcp.URL, "/_state", host, "/_state/lost"},
		{"unix:" + socket, "/_state", "localhost", "/_state/lost"},
		{"http://127.0.0.1:9", tcp.URL, host, "/lost"},
		{"http://127.0.0.1:9", tcp.URL + "/", host, "/lost"},
		{"http://127.0.0.1:9", tcp.URL + "/a/b", host, "/a/b/lost"},
		{tcp.URL, "unix:" + socket, "localhost", "/lost"},
	} {
		c := parseConfig(t, "--upstream="+test.upstream, "--hooks="+test.hooks)
		r := instanceHooks(c, dialOf(t, test.upstream), "d7").Do(t.Context(), agent.HookCall{Kind: agent.HookLost, Seq: 1, Shards: []agent.HookShard{{Shard: 1, Epoch: 2}}})
		if r.Err != nil {
			t.Errorf("%+v: %v", test, r.Err)
			continue
		}
		if a := <-got; a.host != test.host || a.path != test.path || !strings.Contains(a.body, `"disk":"d7"`) {
			t.Errorf("%+v: asked %+v", test, a)
		}
	}
	if instanceHooks(parseConfig(t, "--upstream="+tcp.URL), nil, "d7") != nil {
		t.Error("an app without hooks has some")
	}
}
