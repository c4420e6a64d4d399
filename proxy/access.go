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
	startedAt      time.Time     // start of the request; zero means that no line is written
	upstreamConn   int           // number of the relay, or of the response of a resumed event stream; zero means the first response
	receivedBefore int64         // bytes received on the connection when the header had been read
	sentBefore     int64         // bytes sent on the connection at that time
	queueWait      time.Duration // total time in the wait queue
	upstream       time.Duration // total time of all attempts
	owner          string        // node that the request was sent to; empty means none
	epoch          uint64        // ownership epoch of the last attempt; zero means none
	status         int           // status of the response; zero means that no response was sent
	code           problem.Code  // error code of the response; empty means none
}

// writesAccessLog reports whether a line for the request is written to the access log.
func (c *client) writesAccessLog() bool { return c.settings.Access != nil && c.ingress == "" }

// open starts the line of the request that has just been read from clientConn.
func (line *account) open(clientConn *h1.Conn) {
	line.startedAt = time.Now()
	line.receivedBefore, line.sentBefore = clientConn.Received(), clientConn.Sent()+int64(clientConn.Writer().Pending())
}

// openNext starts the line of the next upstream response of an event stream.
func (line *account) openNext(clientConn *h1.Conn) {
	*line = account{upstreamConn: line.upstreamConn + 1, status: line.status}
	line.open(clientConn)
}

// now returns the current time, or zero if no line is written.
func (line *account) now() time.Time {
	if line.startedAt.IsZero() {
		return time.Time{}
	}
	return time.Now()
}

// since returns the time that has passed since then, a result of now. It returns zero for the zero
// time.
func (line *account) since(then time.Time) time.Duration {
	if then.IsZero() {
		return 0
	}
	return time.Since(then)
}

// recordResponse records the response to the client. res is nil for a response of this node itself.
func (line *account) recordResponse(status int, res *h1.Response, routeKind route.Kind) {
	line.status = status
	if res == nil || line.startedAt.IsZero() {
		return
	}
	errorOfOwner := res.Known(h1.FieldShardwayError)
	if len(errorOfOwner) > 0 && routeKind == route.Remote {
		line.code = problem.Code(errorOfOwner)
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
func (line accessLine) write() {
	if line.exchange.isResumption() {
		return
	}
	line.send(line.bytesIn(), "", "")
}

// bytesIn returns the number of bytes that the client has sent for the line. For a tunnel, they
// include the data after the request.
func (line accessLine) bytesIn() int64 {
	account := &line.exchange.account
	headerBytes := int64(len(line.req.Raw()))
	isTunnel := account.status == 101
	switch {
	case isTunnel:
		return headerBytes + line.conn.Received() - account.receivedBefore
	case account.upstreamConn > 1:
		return 0 // the client has sent the request only once
	}
	return headerBytes + line.req.Body.Received()
}

// send writes a line. in is the number of bytes from the client. If event is not empty, the line
// belongs to a resumable WebSocket, and reason says why the event has happened, or with which result.
func (line accessLine) send(in int64, event, reason string) {
	account := &line.exchange.account
	elapsed := time.Since(account.startedAt)
	logEvent := line.settings.Access.Log.Log()
	logEvent.Str("time", account.startedAt.UTC().Format(accessTime))
	logEvent.Bytes("method", line.req.Method()).Bytes("path", line.req.Path())
	if line.settings.Access.Query && len(line.req.Query()) > 0 {
		logEvent.Bytes("query", line.req.Query())
	}
	logEvent.Int("status", account.status).Str("route", line.routeName())
	line.addShard(logEvent)
	addMillis(logEvent, "queued_ms", account.queueWait)
	addMillis(logEvent, "upstream_ms", account.upstream)
	addMillis(logEvent, "took_ms", elapsed)
	if account.upstreamConn > 0 {
		logEvent.Int("upstream_conn", account.upstreamConn)
	}
	if event != "" {
		logEvent.Str("websocket", event).Str("reason", reason)
	}
	out := line.conn.Sent() + int64(line.conn.Writer().Pending()) - account.sentBefore
	logEvent.Int64("bytes_in", in).Int64("bytes_out", out)
	if code := line.errorCode(); code != "" {
		logEvent.Str("error", string(code))
	}
	line.addClient(logEvent)
	logEvent.Send()
}

// errorCode returns the error code of the line, or "" for a request without an error.
func (line accessLine) errorCode() problem.Code {
	account := &line.exchange.account
	if account.code == "" && account.status == 0 {
		return accessGone
	}
	return account.code
}

// addClient adds the client's address and the ids by which other systems identify the request.
func (line accessLine) addClient(logEvent *zerolog.Event) {
	logEvent.Str("client", line.clientAddr.Text)
	if ip := line.keys.ClientIP(); string(ip) != line.clientAddr.Text {
		logEvent.Bytes("client_for", ip)
	}
	if id := line.exchange.requestID(&line.req); len(id) > 0 {
		logEvent.Bytes("request_id", id)
	}
	if id := forwarded.TraceID(&line.req); id != nil {
		logEvent.Bytes("trace_id", id)
	}
}

// writeInvalid writes the line for received bytes that are not a valid request. Most fields are
// unknown then. It writes nothing if no response was sent.
func (line accessLine) writeInvalid() {
	account := &line.exchange.account
	isLogged := line.settings.Access != nil && line.ingress == ""
	hasResponse := account.status != 0
	if !isLogged || !hasResponse {
		return
	}
	line.settings.Access.Log.Log().Str("time", time.Now().UTC().Format(accessTime)).
		Int("status", account.status).Str("route", "none").Str("error", string(account.code)).Str("client", line.clientAddr.Text).Send()
}

// addShard adds the shard, the ownership epoch, the owner and the key of the request.
func (line accessLine) addShard(logEvent *zerolog.Event) {
	if line.exchange.hasShard {
		logEvent.Uint32("shard", uint32(line.exchange.shard))
	}
	if line.exchange.account.epoch != 0 {
		logEvent.Uint64("epoch", line.exchange.account.epoch)
	}
	if line.exchange.account.owner != "" {
		logEvent.Str("owner", line.exchange.account.owner)
	}
	if line.exchange.Keyless || line.exchange.Key == nil {
		return
	}
	logEvent.Bytes("key_hash", keyHash(line.server.options.HashKey(), line.exchange.Key))
	if line.settings.Access.Keys {
		logEvent.Bytes("key", line.exchange.Key)
	}
}

// routeName returns the name of the request's route. It is "queued" if the request has waited without
// being sent, and "none" if the request failed before routing.
func (line accessLine) routeName() string {
	if routeKind := line.exchange.routeKind(); routeKind != 0 {
		return routeKind.String()
	}
	return "none"
}

// keyHash returns the shardkey.Hash of a key in hexadecimal, as the log contains it.
func keyHash(hashKey, key []byte) []byte {
	return fmt.Appendf(nil, "%016x", shardkey.Hash(hashKey, key))
}

// addMillis adds a duration in milliseconds with three decimals.
func addMillis(logEvent *zerolog.Event, name string, duration time.Duration) {
	logEvent.Float64(name, float64(duration.Microseconds())/1000)
}
