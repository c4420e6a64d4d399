package proxy

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/problem"
	"shardway/proxy/forwarded"
	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
)

// Access is where the lines about requests go, one for each that a client sent
// to this node: what another node forwarded is in that node's log. A line is
// written when the request is over, a tunnel's when that is.
type Access struct {
	// Log takes the lines. It should not wait for a disk: the request's
	// connection waits for it.
	Log zerolog.Logger
	// Keys adds the keys themselves, and Query the queries.
	Keys, Query bool
}

// account is what a line of the access log needs to know and nobody else does.
// It is kept up only while there is an access log, status and code aside.
type account struct {
	began    time.Time // zero: no line
	leg      int       // number of the relay, or of the response of a resumed event stream; zero means the first response
	received int64     // by the connection, when the head was there
	sent     int64
	held     time.Duration
	upstream time.Duration
	owner    string // empty: it got to nobody
	epoch    uint64
	status   int // zero: there was no answer
	code     problem.Code
}

// logs reports whether there is a line of the request in the access log.
func (c *client) logs() bool { return c.set.Access != nil && c.ingress == "" }

// open begins the line of the request that has been read from h, if there is to be one.
func (a *account) open(h *h1.Conn) {
	a.began = time.Now()
	a.received, a.sent = h.Received(), h.Sent()+int64(h.Writer().Pending())
}

// again begins the line of the next leg of an event stream.
func (a *account) again(h *h1.Conn) {
	leg, status := a.leg+1, a.status
	*a = account{leg: leg, status: status}
	a.open(h)
}

// now is time.Now, or zero if there is to be no line.
func (a *account) now() time.Time {
	if a.began.IsZero() {
		return time.Time{}
	}
	return time.Now()
}

// since returns how long ago now returned what it did.
func (a *account) since(then time.Time) time.Duration {
	if then.IsZero() {
		return 0
	}
	return time.Since(then)
}

// answered notes what the client was answered, with an app's own answer or with ours.
func (a *account) answered(status int, res *h1.Response, way route.Kind) {
	a.status = status
	if res == nil || a.began.IsZero() {
		return
	}
	if v := res.Known(h1.FieldShardwayError); len(v) > 0 && way == route.Remote {
		a.code = problem.Code(v)
	}
}

// Errors of the access log that no answer could tell.
const (
	accessGone problem.Code = "client-gone" // no answer: nobody was there for it
	accessCut  problem.Code = "cut"         // the answer broke off
)

// accessTime is how lines write when a request came.
const accessTime = "2006-01-02T15:04:05.000Z"

// accessLine writes the line of a request.
type accessLine struct {
	*requestState
	keys *shardkey.Extractor
}

// write writes the line of a request that is over. What has become a kept socket has lines
// of its own, see sessionLog.
func (l accessLine) write() {
	if l.x.isResumption() {
		return
	}
	a := &l.x.account
	in := int64(len(l.req.Raw())) + l.req.Body.Received()
	if a.leg > 1 {
		in = 0 // the client has asked once
	}
	if a.status == 101 {
		in = int64(len(l.req.Raw())) + l.conn.Received() - a.received
	}
	l.send(in, "", "")
}

// send writes a line; with a word it is one of a kept socket.
func (l accessLine) send(in int64, socket, why string) {
	a := &l.x.account
	took := time.Since(a.began)
	e := l.set.Access.Log.Log()
	e.Str("time", a.began.UTC().Format(accessTime))
	e.Bytes("method", l.req.Method()).Bytes("path", l.req.Path())
	if l.set.Access.Query && len(l.req.Query()) > 0 {
		e.Bytes("query", l.req.Query())
	}
	e.Int("status", a.status).Str("route", l.routeName())
	l.place(e)
	millis(e, "held_ms", a.held)
	millis(e, "upstream_ms", a.upstream)
	millis(e, "took_ms", took)
	if a.leg > 0 {
		e.Int("leg", a.leg)
	}
	if socket != "" {
		e.Str("socket", socket).Str("why", why)
	}
	e.Int64("bytes_in", in).Int64("bytes_out", l.conn.Sent()+int64(l.conn.Writer().Pending())-a.sent)
	switch {
	case a.code != "":
		e.Str("error", string(a.code))
	case a.status == 0:
		e.Str("error", string(accessGone))
	}
	l.who(e)
	e.Send()
}

// who writes from whom the request came, and by which names others know it.
func (l accessLine) who(e *zerolog.Event) {
	e.Str("client", l.from.Text)
	if ip := l.keys.ClientIP(); string(ip) != l.from.Text {
		e.Bytes("client_for", ip)
	}
	if id := l.x.requestID(&l.req); len(id) > 0 {
		e.Bytes("request_id", id)
	}
	if id := forwarded.TraceID(&l.req); id != nil {
		e.Bytes("trace_id", id)
	}
}

// writeBad writes the line of bytes that are no request; there is little to say of them.
func (l accessLine) writeBad() {
	a := &l.x.account
	if l.set.Access == nil || l.ingress != "" || a.status == 0 {
		return
	}
	l.set.Access.Log.Log().Str("time", time.Now().UTC().Format(accessTime)).
		Int("status", a.status).Str("route", "none").Str("error", string(a.code)).Str("client", l.from.Text).Send()
}

// place writes where the request's key lives.
func (l accessLine) place(e *zerolog.Event) {
	if l.x.sharded {
		e.Uint32("shard", uint32(l.x.shard))
	}
	if l.x.account.epoch != 0 {
		e.Uint64("epoch", l.x.account.epoch)
	}
	if l.x.account.owner != "" {
		e.Str("owner", l.x.account.owner)
	}
	if l.x.Keyless || l.x.Key == nil {
		return
	}
	e.Bytes("key_hash", keyHash(l.s.o.HashKey(), l.x.Key))
	if l.set.Access.Keys {
		e.Bytes("key", l.x.Key)
	}
}

// routeName names the way the request went: held if it waited and never left,
// and none if it got not even there.
func (l accessLine) routeName() string {
	if way := l.x.routeOf(); way != 0 {
		return way.String()
	}
	return "none"
}

// keyHash returns what stands in the log for a request's key: its KeyHash, in
// hexadecimal.
func keyHash(hashKey, key []byte) []byte {
	return fmt.Appendf(nil, "%016x", KeyHash(hashKey, key))
}

// millis writes a time with three decimals.
func millis(e *zerolog.Event, name string, d time.Duration) {
	e.Float64(name, float64(d.Microseconds())/1000)
}
