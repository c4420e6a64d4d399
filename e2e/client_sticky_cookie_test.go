//go:build linux

package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"shardway/e2e/kit/cluster"
)

// cachingNginx is an nginx that ignores Set-Cookie when it caches responses. In this way
// an operator shares the cookie of one client with all others by mistake.
const cachingNginx = `
daemon off;
master_process off;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log stderr;
events { worker_connections 512; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  proxy_cache_path %[1]s/cache keys_zone=one:1m;
  server {
    listen %[2]s;
    location / {
      proxy_pass http://%[3]s;
      proxy_cache one;
      proxy_cache_valid any 10m;
      proxy_ignore_headers Set-Cookie;
      add_header X-Cache $upstream_cache_status always;
    }
  }
}
`

// TestSharedCacheDoesNotLeakStickyCookies has clients without a cookie, which request
// responses with different cache headers through a caching nginx. No cached response
// contains a sticky cookie, and no two clients get the same cookie.
func TestSharedCacheDoesNotLeakStickyCookies(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, cluster.Options{
		Binaries: binaries(t), Shards: 8, Secret: hasSecret(t), Flags: []string{"--bootstrap-expect", "2", "--on-missing-key", "cookie"},
	})
	app, front, dir := c.Address(t), c.Address(t), t.TempDir()
	startRawApp(t, app)
	for range 2 {
		c.Prepare(t, "--upstream", "http://"+app)
	}
	c.AddJoinFlags()
	for _, node := range c.Nodes() {
		node.Start(t)
	}
	c.AwaitServing(t)
	config := filepath.Join(dir, "nginx.conf")
	must(t, os.WriteFile(config, fmt.Appendf(nil, cachingNginx, dir, front, c.Nodes()[0].Addr), 0o600))
	nginx := exec.Command("nginx", "-c", config, "-p", dir)
	nginx.Stderr = os.Stderr
	startProgram(t, nginx, front)

	seen := map[string]string{} // the response by cookie
	for _, tc := range []struct {
		lines          string
		stored, cookie bool
	}{
		{"", false, true},
		{"Cache-Control: private\r\n", false, true},
		{"Cache-Control: no-store\r\n", false, true},
		{"Cache-Control: public, max-age=60\r\n", true, false},
		{"Cache-Control: s-maxage=60\r\n", true, false},
		{"X-Accel-Expires: 60\r\n", true, false},
		{"X-Accel-Expires: 60\r\nCache-Control: private\r\n", true, false},
		{"X-Accel-Expires: @4102444800\r\n", true, false},
		{"X-Accel-Expires: 0\r\n", false, true},
		{"CDN-Cache-Control: max-age=60\r\n", true, false},
		{"Surrogate-Control: max-age=60\r\n", true, false},
		{"Edge-Control: max-age=60\r\n", true, false},
	} {
		url := "http://" + front + "/?" + respondWith("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"+tc.lines+"\r\nok")
		for try := range 3 {
			res := getOnce(t, url)
			if stored := res.header.Get("X-Cache") == "HIT"; stored != (tc.stored && try > 0) {
				t.Errorf("%q: response %d from nginx's cache: %v", tc.lines, try, stored)
			}
			cookies := res.cookies
			if res.status != http.StatusOK || len(cookies) > 0 != tc.cookie {
				t.Errorf("%q: %d, cookies %v; want one: %v", tc.lines, res.status, cookies, tc.cookie)
			}
			for _, cookie := range cookies {
				if other, ok := seen[cookie.Value]; ok {
					t.Errorf("%q: a client got a cookie that another got with %q", tc.lines, other)
				}
				seen[cookie.Value] = tc.lines
			}
		}
	}
	// This nginx does share cookies: the cookie of the app.
	url := "http://" + front + "/?" + respondWith("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: app=1\r\nX-Accel-Expires: 60\r\n\r\n")
	getOnce(t, url)
	if res := getOnce(t, url); res.header.Get("X-Cache") != "HIT" || !strings.HasPrefix(res.header.Get("Set-Cookie"), "app=") {
		t.Errorf("nginx does not store cookies, so this test shows nothing: %v", res.header)
	}
}

// TestStickyCookieIsConfigured gives the sticky cookie a name and a lifetime. All nodes read it. After both
// nodes have loaded another name, they set and read only the cookie of that name.
func TestStickyCookieIsConfigured(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "s.yaml")
	const settings = "on_missing_key: cookie\ndebug_headers: true\ncookie: %s; max-age=1h; samesite=strict\n"
	must(t, os.WriteFile(file, fmt.Appendf(nil, settings, "name=first-key"), 0o600))
	c := start(t, 2, "--config", file)
	c.AwaitServing(t)
	ask := func(node *cluster.Node, cookie string) (shard string, set *http.Cookie) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+node.Addr+"/", nil)
		must(t, err)
		req.Header.Set("Cookie", cookie)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		must(t, resp.Body.Close())
		if cookies := resp.Cookies(); len(cookies) > 0 {
			set = cookies[0]
		}
		if shard = resp.Header.Get("Shardway-Shard"); resp.StatusCode != http.StatusOK || shard == "" {
			t.Errorf("Cookie %q: %s, shard %q", cookie, resp.Status, shard)
		}
		return shard, set
	}
	newCookie := func(name string) string {
		t.Helper()
		shard, set := ask(c.Nodes()[0], "other=1")
		if set == nil || set.Name != name || set.MaxAge != 3600 || set.SameSite != http.SameSiteStrictMode {
			t.Fatalf("a request without a key sets the cookie %v, want one with the name %s", set, name)
		}
		for _, node := range c.Nodes() {
			if got, again := ask(node, name+"="+set.Value); got != shard || again != nil {
				t.Errorf("node %s: shard %s, want %s; cookie %v", node.ID, got, shard, again)
			}
		}
		return name + "=" + set.Value
	}
	old := newCookie("first-key")
	for _, node := range c.Nodes() {
		reloadConfig(t, node, file, fmt.Sprintf(settings, "name=second-key"), "settings reloaded", `"changed":["cookie"]`)
	}
	cluster.Await(t, "the new name", func() error {
		for _, node := range c.Nodes() {
			if _, set := ask(node, old); set == nil || set.Name != "second-key" {
				return fmt.Errorf("node %s sets %v", node.ID, set)
			}
		}
		return nil
	})
	newCookie("second-key")
}

// nginxResponse is a response without its body.
type nginxResponse struct {
	status  int
	header  http.Header
	cookies []*http.Cookie
}

// getOnce asks without cookies, over a connection of its own. The body of the response is closed.
func getOnce(t *testing.T, url string) nginxResponse {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	req.Close = true
	resp, err := http.DefaultTransport.RoundTrip(req)
	must(t, err)
	must(t, resp.Body.Close())
	return nginxResponse{resp.StatusCode, resp.Header, resp.Cookies()}
}
