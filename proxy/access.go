package proxy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/problem"
	"shardway/proxy/h1"
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
	received int64     // by the connection, when the head was there
	sent     int64
	held     time.Duration
	upstream time.Duration
	owner    string // empty: it got to nobody
	epoch    uint64
	status   int // zero: there was no answer
	code     problem.Code
}

// openAccount begins the line of the request that has been read.
func (c *client) openAccount() {
	if c.set.Access == nil || c.ingress != "" {
		return
	}
	w := c.h.Writer()
	c.x.account.began = time.Now()
	c.x.account.received, c.x.account.sent = c.h.Received(), c.h.Sent()+int64(w.Pending())
}

// timedHold waits and keeps account of it.
func (c *client) timedHold(v verdict) verdict {
	a := &c.x.account
	if a.began.IsZero() {
		return c.hold(v)
	}
	began := time.Now()
	v = c.hold(v)
	a.held += time.Since(began)
	return v
}

// answered notes what the client was answered.
func (c *client) answered(status int, res *h1.Response) {
	c.x.account.status = status
	if res == nil || c.x.account.began.IsZero() {
		return
	}
	if v := res.Known(h1.FieldShardwayError); len(v) > 0 && c.x.route == Remote {
		c.x.account.code = problem.Code(v)
	}
}

// Errors of the access log that no answer could tell.
const (
	accessGone problem.Code = "client-gone" // no answer: nobody was there for it
	accessCut  problem.Code = "cut"         // the answer broke off
)

// closeAccount writes the line of the request, if there is to be one.
func (c *client) closeAccount() {
	a := &c.x.account
	if a.began.IsZero() {
		return
	}
	took := time.Since(a.began)
	e := c.set.Access.Log.Log()
	e.Str("time", a.began.UTC().Format("2006-01-02T15:04:05.000Z"))
	c.describe(e)
	e.Int("status", a.status).Str("route", c.routeName())
	c.place(e)
	millis(e, "held_ms", a.held)
	millis(e, "upstream_ms", a.upstream)
	millis(e, "took_ms", took)
	in := int64(len(c.req.Raw())) + c.req.Body.Received()
	if a.status == 101 {
		in = int64(len(c.req.Raw())) + c.h.Received() - a.received
	}
	e.Int64("bytes_in", in).Int64("bytes_out", c.h.Sent()+int64(c.h.Writer().Pending())-a.sent)
	switch {
	case a.code != "":
		e.Str("error", string(a.code))
	case a.status == 0:
		e.Str("error", string(accessGone))
	}
	e.Str("client", c.from.text)
	if ip := c.keys.clientIP(); string(ip) != c.from.text {
		e.Bytes("client_for", ip)
	}
	if id := c.requestID(); len(id) > 0 {
		e.Bytes("request_id", id)
	}
	e.Send()
}

// describe writes what was asked for.
func (c *client) describe(e *zerolog.Event) {
	e.Bytes("method", c.req.Method()).Bytes("path", c.req.Path())
	if c.set.Access.Query && len(c.req.Query()) > 0 {
		e.Bytes("query", c.req.Query())
	}
}

// place writes where its key lives.
func (c *client) place(e *zerolog.Event) {
	if c.x.sharded {
		e.Uint32("shard", uint32(c.x.shard))
	}
	if c.x.account.epoch != 0 {
		e.Uint64("epoch", c.x.account.epoch)
	}
	if c.x.account.owner != "" {
		e.Str("owner", c.x.account.owner)
	}
	if c.x.keyless || c.x.key == nil {
		return
	}
	e.Bytes("key_hash", keyHash(c.s.o.HashKey(), c.x.key))
	if c.set.Access.Keys {
		e.Bytes("key", c.x.key)
	}
}

// keyHash returns what stands in the log for a request's key: the first 8 bytes of
// its HMAC-SHA256, in hexadecimal. Who has the log and not the HMAC's key cannot try
// keys on it.
func keyHash(hashKey, key []byte) []byte {
	const length = 8
	mac := hmac.New(sha256.New, hashKey)
	_, _ = mac.Write(key) // never fails
	return hex.AppendEncode(make([]byte, 0, 2*length), mac.Sum(nil)[:length])
}

// routeName names the way the request went: held if it waited and never left,
// and none if it got not even there.
func (c *client) routeName() string {
	if way := c.x.routeOf(); way != 0 {
		return way.String()
	}
	return "none"
}

// requestID returns the X-Request-Id that the client gave, or that was made.
func (c *client) requestID() []byte {
	if v := c.req.Known(h1.FieldXRequestID); len(v) > 0 {
		return v
	}
	if c.x.id == [2]uint64{} {
		return nil
	}
	raw := c.x.idBytes()
	return hex.AppendEncode(nil, raw[:])
}

// millis writes a time with three decimals.
func millis(e *zerolog.Event, name string, d time.Duration) {
	e.Float64(name, float64(d.Microseconds())/1000)
}

// accountBad writes the line of bytes that are no request; there is little to
// say of them.
func (c *client) accountBad() {
	a := c.set.Access
	if a == nil || c.ingress != "" || c.x.account.status == 0 {
		return
	}
	a.Log.Log().Str("time", time.Now().UTC().Format("2006-01-02T15:04:05.000Z")).
		Int("status", c.x.account.status).Str("route", "none").Str("error", string(c.x.account.code)).Str("client", c.from.text).Send()
}
