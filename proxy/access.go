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

// Access is the configuration of the access log. The log contains one line for each request that a
// client has sent to this node. A forwarded request is in the log of its ingress only. A line is
// written when the request, or the tunnel that it has opened, has ended.
type Access struct {
	// Log receives the lines. It should not block on a disk, because the connection of the request
	// waits for it.
	Log zerolog.Logger
	// Keys adds the shard keys to the lines, and Query adds the query strings.
	Keys, Query bool
}

// account contains the data of a request that only its access log line needs. Except for status and
// code, it is recorded only while the access log is enabled.
type account struct {
	began        time.Time // start of the request; zero means that no line is written
	upstreamConn int       // number of the relay, or of the response of a resumed event stream; zero means the first response
	received     int64     // bytes received on the connection when the header had been read
	sent         int64
	queueWait    time.Duration
	upstream     time.Duration
	owner        string // node that the request was sent to; empty means none
	epoch        uint64
	status       int // zero means that no response was sent
	code         problem.Code
}

// logs reports whether a line for the request is written to the access log.
func (c *client) logs() bool { return c.settings.Access != nil && c.ingress == "" }

// open starts the line of the request that has just been read from h.
func (a *account) open(h *h1.Conn) {
	a.began = time.Now()
	a.received, a.sent = h.Received(), h.Sent()+int64(h.Writer().Pending())
}

// openNext starts the line of the next upstream response of an event stream.
func (a *account) openNext(h *h1.Conn) {
	conn, status := a.upstreamConn+1, a.status
	*a = account{upstreamConn: conn, status: status}
	a.open(h)
}

// now returns the present time, or zero if no line is written.
func (a *account) now() time.Time {
	if a.began.IsZero() {
		return time.Time{}
	}
	return time.Now()
}

// since returns the time that has passed since then, which is a result of now.
func (a *account) since(then time.Time) time.Duration {
	if then.IsZero() {
		return 0
	}
	return time.Since(then)
}

// recordResponse records the response to the client. res is nil for a response of this node itself.
func (a *account) recordResponse(status int, res *h1.Response, way route.Kind) {
	a.status = status
	if res == nil || a.began.IsZero() {
		return
	}
	if v := res.Known(h1.FieldShardwayError); len(v) > 0 && way == route.Remote {
		a.code = problem.Code(v)
	}
}

// Error codes that appear only in the access log, because no response could contain them.
const (
	accessGone    problem.Code = "client-gone" // no response was sent, because the client had disconnected
	accessAborted problem.Code = "aborted"     // the response ended early
)

// accessTime is the format of the start time in the lines.
const accessTime = "2006-01-02T15:04:05.000Z"

// accessLine writes access log lines for a request.
type accessLine struct {
	*requestState
	keys *shardkey.Extractor
}

// write writes the line of a request that has ended. It writes nothing for a resumable WebSocket,
// because sessionLog writes its lines.
func (l accessLine) write() {
	if l.exchange.isResumption() {
		return
	}
	a := &l.exchange.account
	in := int64(len(l.req.Raw())) + l.req.Body.Received()
	if a.upstreamConn > 1 {
		in = 0 // the client has sent the request only once
	}
	if a.status == 101 {
		in = int64(len(l.req.Raw())) + l.conn.Received() - a.received
	}
	l.send(in, "", "")
}

// send writes a line. If event is not empty, the line belongs to a resumable WebSocket, and reason says
// why the event has happened, or with which result.
func (l accessLine) send(in int64, event, reason string) {
	a := &l.exchange.account
	took := time.Since(a.began)
	e := l.settings.Access.Log.Log()
	e.Str("time", a.began.UTC().Format(accessTime))
	e.Bytes("method", l.req.Method()).Bytes("path", l.req.Path())
	if l.settings.Access.Query && len(l.req.Query()) > 0 {
		e.Bytes("query", l.req.Query())
	}
	e.Int("status", a.status).Str("route", l.routeName())
	l.place(e)
	millis(e, "queued_ms", a.queueWait)
	millis(e, "upstream_ms", a.upstream)
	millis(e, "took_ms", took)
	if a.upstreamConn > 0 {
		e.Int("upstream_conn", a.upstreamConn)
	}
	if event != "" {
		e.Str("websocket", event).Str("reason", reason)
	}
	e.Int64("bytes_in", in).Int64("bytes_out", l.conn.Sent()+int64(l.conn.Writer().Pending())-a.sent)
	switch {
	case a.code != "":
		e.Str("error", string(a.code))
	case a.status == 0:
		e.Str("error", string(accessGone))
	}
	l.addClient(e)
	e.Send()
}

// addClient adds the client's address and the ids by which other systems identify the request.
func (l accessLine) addClient(e *zerolog.Event) {
	e.Str("client", l.from.Text)
	if ip := l.keys.ClientIP(); string(ip) != l.from.Text {
		e.Bytes("client_for", ip)
	}
	if id := l.exchange.requestID(&l.req); len(id) > 0 {
		e.Bytes("request_id", id)
	}
	if id := forwarded.TraceID(&l.req); id != nil {
		e.Bytes("trace_id", id)
	}
}

// writeBad writes the line for received bytes that are not a valid request. Most fields are unknown
// then.
func (l accessLine) writeBad() {
	a := &l.exchange.account
	if l.settings.Access == nil || l.ingress != "" || a.status == 0 {
		return
	}
	l.settings.Access.Log.Log().Str("time", time.Now().UTC().Format(accessTime)).
		Int("status", a.status).Str("route", "none").Str("error", string(a.code)).Str("client", l.from.Text).Send()
}

// place adds the shard, the ownership epoch, the owner and the key of the request.
func (l accessLine) place(e *zerolog.Event) {
	if l.exchange.sharded {
		e.Uint32("shard", uint32(l.exchange.shard))
	}
	if l.exchange.account.epoch != 0 {
		e.Uint64("epoch", l.exchange.account.epoch)
	}
	if l.exchange.account.owner != "" {
		e.Str("owner", l.exchange.account.owner)
	}
	if l.exchange.Keyless || l.exchange.Key == nil {
		return
	}
	e.Bytes("key_hash", keyHash(l.server.options.HashKey(), l.exchange.Key))
	if l.settings.Access.Keys {
		e.Bytes("key", l.exchange.Key)
	}
}

// routeName returns the name of the request's route. It is "queued" if the request has waited without
// being sent, and "none" if the request failed before routing.
func (l accessLine) routeName() string {
	if way := l.exchange.routeOf(); way != 0 {
		return way.String()
	}
	return "none"
}

// keyHash returns the shardkey.Hash of a key in hexadecimal, as the log contains it.
func keyHash(hashKey, key []byte) []byte {
	return fmt.Appendf(nil, "%016x", shardkey.Hash(hashKey, key))
}

// millis adds a duration in milliseconds with three decimals.
func millis(e *zerolog.Event, name string, d time.Duration) {
	e.Float64(name, float64(d.Microseconds())/1000)
}
