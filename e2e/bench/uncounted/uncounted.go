// Package uncounted builds Shardway without what counts and times its requests, so that
// what this costs can be measured: the difference to the binary that is shipped.
//
// It is planted by the go command's -overlay, as bugs are for tests; the source itself has
// no trace of it. What is taken out is all that a request which is answered at once does
// for metrics and for the load by shard and key (GET /v1/hot). What counts those that
// wait, go again or fail is left, for a bench has none of them.
//
// The binary says in its version what it is.
package uncounted

import "shardway/internal/overlay"

// Owns is what the version of such a binary says of it.
const Owns = "BUILT WITHOUT METRICS OF REQUESTS for benches, not for use"

// edits take the counting out. What the functions do else comes after a return.
func edits() []overlay.Edit {
	return []overlay.Edit{
		begin("proxy.metrics.request", "func (m *metrics) request(kind Kind, code int) {\n", "\treturn\n"),
		{Decl: "proxy.metrics.over", Old: "m.durations[x.routeOf()][class].observe(took)", New: ""},
		begin("proxy.histogram.observe", "func (h *histogram) observe(d time.Duration) {\n", "\treturn\n"),
		{Decl: "proxy.client.beginExchange", Old: "began:  c.s.clock.exact(),\n", New: "began:  0,\n"},
		begin("proxy.client.startTimer", "func (c *client) startTimer() (began time.Duration, sent int64) {\n", "\treturn 0, 0\n"),
		begin("proxy.client.recordRun", "func (c *client) recordRun(p *attempt, v decision, began time.Duration, sent int64) {\n", "\treturn\n"),
		{Decl: "proxy.client.handleResponse", Old: "c.s.metrics.looped.Add(1)\n", New: ""},
		begin("proxy.loads.sample", "func (l *loads) sample(key []byte) {\n", "\treturn\n"),
		begin("internal/cli.versionCommand.Run", "text := b.String()\n", "\ttext += \", "+Owns+"\"\n"),
	}
}

func begin(decl, text, more string) overlay.Edit {
	return overlay.Edit{Decl: decl, Old: text, New: text + more}
}

// Overlay writes the edits into dir and returns what go build -overlay takes. root is the
// module's. It fails where the text has changed that is to be taken out.
func Overlay(root, dir string) (string, error) {
	o := overlay.New(root)
	for _, e := range edits() {
		if err := o.Edit(e); err != nil {
			return "", err
		}
	}
	return o.Write(dir)
}
