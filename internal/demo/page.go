package demo

import (
	"bytes"
	"html/template"
	"strings"

	"github.com/valyala/fasthttp"
)

// prefersHTML reports whether a browser navigates to the app. The script of the page and curl get JSON.
func prefersHTML(h *fasthttp.RequestHeader) bool {
	return h.IsGet() && strings.Contains(string(h.Peek("Accept")), "text/html")
}

// writePage responds with a page for browsers. The page sends a request every second, so that the user
// sees the count continue while a node restarts. It declares an empty icon, because the app would count
// a request for one.
func writePage(ctx *fasthttp.RequestCtx, answer Answer) {
	var b bytes.Buffer
	if err := page().Execute(&b, answer); err != nil {
		ctx.Error(err.Error(), fasthttp.StatusInternalServerError)
		return
	}
	writeHTML(ctx, b.Bytes())
}

func writeHTML(ctx *fasthttp.RequestCtx, page []byte) {
	h := &ctx.Response.Header
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:")
	h.Set("Cache-Control", "no-store")
	ctx.SetContentType("text/html; charset=utf-8")
	ctx.SetBody(page)
}

func page() *template.Template {
	return template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">
<title>Shardway demo</title>
<style>
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 38rem; margin: 2rem auto; padding: 0 1rem }
th { text-align: left; font-weight: normal; padding-right: 2rem }
td { font-weight: bold; overflow-wrap: anywhere }
</style>
</head>
<body>
<h1>Counted to <span id="count">{{.Count}}</span></h1>
<table>
<tr><th>node</th><td id="node">{{.Node}}</td></tr>
<tr><th>shard</th><td id="shard">{{.Shard}}</td></tr>
<tr><th>epoch</th><td id="epoch">{{.Epoch}}</td></tr>
<tr><th>key</th><td id="key">{{.Key}}</td></tr>
</table>
<p><a href="/chat">A chat room of this key</a>: its page stays connected while nodes restart.</p>
<p id="said">The key is this browser's: a cookie. Its shard has one node, whichever port you ask.</p>
<script>
const show = (id, text) => { document.getElementById(id).textContent = text };
setInterval(async () => {
  try {
    const res = await fetch(location.href, {headers: {Accept: "application/json"}});
    if (!res.ok) throw new Error(res.headers.get("Shardway-Error") || res.status);
    for (const [id, text] of Object.entries(await res.json())) show(id, text);
    show("said", "Counting. Kill the node: another node continues with the next number, in a higher epoch.");
  } catch (e) {
    show("said", "No answer on this port (" + e.message + "): trying again. The other ports count on.");
  }
}, 1000);
</script>
</body>
</html>
`))
}
