package demo_test

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"shardway/internal/demo"
)

// A browser at the demo's first port got {"code":"no-key"}. It has a key by a cookie now
// (TestArguments), and sees what is counted for it.
func TestBrowserSeesAPage(t *testing.T) {
	app := demo.NewApp(t.TempDir())
	hook(t, app, "acquire", 1, 7, 3)
	for _, tt := range []struct {
		method, accept string
		page           bool
	}{
		{"GET", "text/html,application/xhtml+xml,*/*;q=0.8", true},
		{"GET", "*/*", false},
		{"GET", "application/json", false},
		{"POST", "text/html", false},
	} {
		var r fasthttp.Request
		r.Header.SetMethod(tt.method)
		r.SetRequestURI("http://app/")
		for name, value := range map[string]string{
			"Accept": tt.accept, "Shardway-Shard": "7", "Shardway-Epoch": "3", "Shardway-Key": "<script>", "Shardway-Node": "n2",
		} {
			r.Header.Set(name, value)
		}
		var ctx fasthttp.RequestCtx
		ctx.Init(&r, nil, nil)
		app.Serve(&ctx)
		page := strings.HasPrefix(string(ctx.Response.Header.ContentType()), "text/html")
		if page != tt.page {
			t.Errorf("%s, Accept %s: %s", tt.method, tt.accept, ctx.Response.Header.ContentType())
		}
		if !page {
			continue
		}
		for _, want := range []string{`id="count">1<`, `id="node">n2<`, `id="shard">7<`, `id="epoch">3<`, `id="key">&lt;script&gt;<`} {
			if !strings.Contains(string(ctx.Response.Body()), want) {
				t.Errorf("the page lacks %s:\n%s", want, ctx.Response.Body())
			}
		}
	}
}
