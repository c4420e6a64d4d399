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
	"shardway/config"
	"shardway/node"
	"shardway/node/disk"
	"shardway/proxy/upstream"
	"shardway/shardmap"
)

// dialOf returns the function that connects to the app.
func dialOf(t *testing.T, url string) func(context.Context) (net.Conn, error) {
	t.Helper()
	dial, err := upstream.URLDialer(url)
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
		r := instanceHooks(appAddress{conf: c, url: test.upstream}, dialOf(t, test.upstream), "d7").Do(t.Context(), agent.HookCall{Kind: agent.HookLost, Seq: 1, Shards: []agent.HookShard{{Shard: 1, Epoch: 2}}})
		if r.Err != nil {
			t.Errorf("%+v: %v", test, r.Err)
			continue
		}
		if a := <-got; a.host != test.host || a.path != test.path || !strings.Contains(a.body, `"disk":"d7"`) {
			t.Errorf("%+v: asked %+v", test, a)
		}
	}
	if instanceHooks(appAddress{conf: parseConfig(t, "--upstream="+tcp.URL), url: tcp.URL}, nil, "d7") != nil {
		t.Error("an app without hooks has some")
	}
}

// Each instance gets its own address in the Host header. A removed instance gets no call: its number has no
// address, and a separate address of the hooks belongs to the remaining instance.
func TestHooksOfSeveralInstances(t *testing.T) {
	hosts := make(chan string, 1)
	app := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hosts <- r.Host })
	first, second := httptest.NewServer(app), httptest.NewServer(app)
	defer first.Close()
	defer second.Close()
	do := func(conf *config.Config, upstreams []string, instance shardmap.Instance) agent.HookResult {
		options := &node.Options{Dir: openDir(t)}
		options.Proxy.DialUpstream = dialOf(t, first.URL)
		for _, upstream := range upstreams[1:] {
			var dial func(context.Context) (net.Conn, error)
			if upstream != "" {
				dial = dialOf(t, upstream)
			}
			options.Proxy.FurtherUpstreams = append(options.Proxy.FurtherUpstreams, dial)
		}
		var apps []appAddress
		for _, upstream := range upstreams {
			apps = append(apps, appAddress{conf: conf, url: upstream})
		}
		return appHooks(conf, apps, options).Do(t.Context(), agent.HookCall{Kind: agent.HookRelease, Seq: 1, Instance: instance, Shards: []agent.HookShard{{Shard: 1, Epoch: 2}}})
	}
	both := parseConfig(t, "--upstream="+first.URL, "--upstream="+second.URL, "--hooks=/_state")
	for i, server := range []*httptest.Server{first, second} {
		if result := do(both, []string{first.URL, second.URL}, shardmap.Instance(i)); result.Err != nil {
			t.Errorf("instance %d: %v", i+1, result.Err)
		} else if got := <-hosts; "http://"+got != server.URL {
			t.Errorf("instance %d at %s got the host %q", i+1, server.URL, got)
		}
	}
	for _, hooks := range []string{"/_state", first.URL} {
		conf := parseConfig(t, "--upstream=http://127.0.0.1:9", "--hooks="+hooks)
		if result := do(conf, []string{first.URL, ""}, 1); !result.Refused {
			t.Errorf("hooks %s: a removed instance responded: %v", hooks, result.Err)
			<-hosts
		}
	}
}

func openDir(t *testing.T) *disk.Dir {
	t.Helper()
	dir, err := disk.Open(t.TempDir(), "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}
