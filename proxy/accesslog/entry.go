package accesslog

import (
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/proxy/route"
)

// Config is the configuration of the access log. The log contains one line for each request that a
// client has sent to this node. A forwarded request is in the log of its ingress only. A line is
// written at the end of the request or of the tunnel that it opened.
type Config struct {
	// Log receives the lines. It should not block on a disk, because the request's connection waits
	// for it.
	Log zerolog.Logger
	// Keys adds the shard keys to the lines, and Query adds the query strings.
	Keys, Query bool
}

// Entry contains the data of a request that only its access log line needs. Except for Status and
// Code, it is recorded only while the access log is enabled.
type Entry struct {
	StartedAt      time.Time     // start of the request; zero means that no line is written
	UpstreamConn   int           // number of the relay, or of the response of a resumed event stream, from zero
	ReceivedBefore int64         // bytes received on the connection by the time the header had been read
	sentBefore     int64         // bytes sent on the connection at that time
	QueueWait      time.Duration // total time in the wait queue
	Upstream       time.Duration // total time of all attempts
	Rerouted       bool          // the request was sent again because the app named its key
	Owner          string        // node that the request was sent to; empty means none
	Instance       int           // app instance of this node that ran the last attempt, from 1; zero means another node, or a node with one instance
	Epoch          uint64        // ownership epoch of the last attempt; zero means none
	Status         int           // status of the response; zero means that no response was sent
	Code           problem.Code  // error code of the response; empty means none
}

// Open starts the line of a request whose header has just been read. received and sent are the
// bytes received from and sent to its client so far.
func (entry *Entry) Open(received, sent int64) {
	entry.StartedAt = time.Now()
	entry.ReceivedBefore, entry.sentBefore = received, sent
}

// OpenNext starts the line of the next upstream response of an event stream, like Open.
func (entry *Entry) OpenNext(received, sent int64) {
	*entry = Entry{UpstreamConn: entry.UpstreamConn + 1, Status: entry.Status}
	entry.Open(received, sent)
}

// Now returns the current time, or zero if no line is written.
func (entry *Entry) Now() time.Time {
	if entry.StartedAt.IsZero() {
		return time.Time{}
	}
	return time.Now()
}

// Since returns the time since then, a result of Now, or zero for the zero time.
func (entry *Entry) Since(then time.Time) time.Duration {
	if then.IsZero() {
		return 0
	}
	return time.Since(then)
}

// RecordResponse records the response to the client. res is nil for a response of this node itself.
func (entry *Entry) RecordResponse(status int, res *h1.Response, routeKind route.Kind) {
	entry.Status = status
	if res == nil || entry.StartedAt.IsZero() {
		return
	}
	errorOfOwner := res.Known(h1.FieldShardwayError)
	if len(errorOfOwner) > 0 && routeKind == route.Remote {
		entry.Code = problem.Code(errorOfOwner)
	}
}

// Error codes that appear only in the access log, because no response could contain them.
const (
	ClientGone problem.Code = "client-gone" // no response was sent, because the client had disconnected
	Aborted    problem.Code = "aborted"     // the response ended early
)

// timeFormat is the format of the start time in the lines.
const timeFormat = "2006-01-02T15:04:05.000Z"
