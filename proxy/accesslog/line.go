package accesslog

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/problem"
	"shardway/proxy/forwarded"
	"shardway/proxy/h1"
	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

// Request is the request that a line describes. For a resumable WebSocket, a line describes one upstream
// connection.
type Request struct {
	HTTP     *h1.Request
	Sent     int64 // bytes sent to the client so far, counted as for Entry.Open
	Client   *forwarded.Client
	ClientIP []byte // address of the client according to trusted proxies
	Route    string // name of the route; "queued" if the request was never sent, and "none" if it was not routed
	ID       []byte // X-Request-Id; empty means none

	Service  string // empty without configured services
	HasShard bool
	Shard    shardmap.Shard // within the service
	Key      []byte         // nil means that the request has no key
	HashKey  []byte         // key of the HMAC that the line contains instead of Key

	// Event and Reason are set for a resumable WebSocket. Reason is the cause of the event, or
	// its result.
	Event, Reason string
}

// BytesIn returns the number of bytes that the client has sent for the request of the entry. For a tunnel, they
// include the data after the request. received is the number of bytes received from the client so far, counted as
// for Open.
func (entry *Entry) BytesIn(request *h1.Request, received int64) int64 {
	headerSize := int64(len(request.Raw()))
	switch {
	case entry.Status == 101:
		return headerSize + received - entry.ReceivedBefore
	case entry.UpstreamConn > 1:
		return 0 // already counted: the client sent the request only once
	}
	return headerSize + request.Body.Received()
}

// Write writes a line. in is the number of bytes that the client has sent.
func (config *Config) Write(entry *Entry, request Request, in int64) {
	elapsed := time.Since(entry.StartedAt)
	event := config.Log.Log()
	event.Str("time", entry.StartedAt.UTC().Format(timeFormat))
	event.Bytes("method", request.HTTP.Method()).Bytes("path", request.HTTP.Path())
	if config.Query && len(request.HTTP.Query()) > 0 {
		event.Bytes("query", request.HTTP.Query())
	}
	event.Int("status", entry.Status).Str("route", request.Route)
	config.addShard(event, entry, &request)
	addMillis(event, "queued_ms", entry.QueueWait)
	addMillis(event, "upstream_ms", entry.Upstream)
	addMillis(event, "took_ms", elapsed)
	if entry.Rerouted {
		event.Bool("rerouted", true)
	}
	if entry.UpstreamConn > 0 {
		event.Int("upstream_conn", entry.UpstreamConn)
	}
	if request.Event != "" {
		event.Str("websocket", request.Event).Str("reason", request.Reason)
	}
	out := request.Sent - entry.sentBefore
	event.Int64("bytes_in", in).Int64("bytes_out", out)
	if code := entry.errorCode(); code != "" {
		event.Str("error", string(code))
	}
	addClient(event, &request)
	event.Send()
}

// errorCode returns the error code of the line, or "" for a request without an error.
func (entry *Entry) errorCode() problem.Code {
	if entry.Code == "" && entry.Status == 0 {
		return ClientGone
	}
	return entry.Code
}

// WriteInvalid writes the line for received bytes that are not a valid request. Most fields are
// unknown then. client is the address of the client.
func (config *Config) WriteInvalid(entry *Entry, client string) {
	config.Log.Log().Str("time", time.Now().UTC().Format(timeFormat)).
		Int("status", entry.Status).Str("route", "none").Str("error", string(entry.Code)).Str("client", client).Send()
}

// addClient adds the client's address and the IDs by which other systems identify the request.
func addClient(event *zerolog.Event, request *Request) {
	event.Str("client", request.Client.Text)
	if string(request.ClientIP) != request.Client.Text {
		event.Bytes("client_for", request.ClientIP)
	}
	if len(request.ID) > 0 {
		event.Bytes("request_id", request.ID)
	}
	if id := forwarded.TraceID(request.HTTP); id != nil {
		event.Bytes("trace_id", id)
	}
}

// addShard adds the service, the shard, the ownership epoch, the owner and the key of the request.
func (config *Config) addShard(event *zerolog.Event, entry *Entry, request *Request) {
	if request.Service != "" {
		event.Str("service", request.Service)
	}
	if request.HasShard {
		event.Uint32("shard", uint32(request.Shard))
	}
	if entry.Epoch != 0 {
		event.Uint64("epoch", entry.Epoch)
	}
	if entry.Owner != "" {
		event.Str("owner", entry.Owner)
	}
	if entry.Instance != 0 {
		event.Int("instance", entry.Instance)
	}
	if request.Key == nil {
		return
	}
	event.Bytes("key_hash", fmt.Appendf(nil, "%016x", shardkey.Hash(request.HashKey, request.Key)))
	if config.Keys {
		event.Bytes("key", request.Key)
	}
}

// addMillis adds a duration in milliseconds with three decimals.
func addMillis(event *zerolog.Event, name string, duration time.Duration) {
	event.Float64(name, float64(duration.Microseconds())/1000)
}
