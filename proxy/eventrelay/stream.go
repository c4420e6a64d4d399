package eventrelay

import (
	"strconv"
	"time"

	"shardway/proxy/eventstream"
	"shardway/proxy/h1"
)

const (
	// HeaderResumed is set in a request that resumes an event stream which the client is still
	// reading. Its value is the number of such requests so far that may have reached an app.
	HeaderResumed = "Shardway-Stream-Resumed"
	// ValueResume is the value of h1.FieldShardwayStream with which an app permits resumption.
	ValueResume = "resume"

	lineResumed   = HeaderResumed + ": "
	lineLastEvent = "Last-Event-ID: "
)

// maxResumes limits how many requests may resume a stream within resumePeriod under the same
// ownership epoch. The limit ends a stream that the app repeatedly breaks. Requests under previous
// epochs do not count, and neither do requests before a planned restart of the owner.
const (
	maxResumes   = 3
	resumePeriod = time.Minute
)

// Stream is an event stream whose client stays connected while the stream is requested
// again from the next owner of its shard. It exists only at the ingress. If an upstream response
// ends within an event, that event is not sent to the client. With the event ids of the app, the
// next request starts after the last event that was sent.
type Stream struct {
	Buffer eventstream.Buffer // contains the event that is incomplete
	Epoch  uint64             // ownership epoch of the last response
	Ended  bool               // the last response has ended, and another one must follow

	responses int    // number of responses that have begun
	requested uint64 // number of requests to resume that may have reached an app
	// recent contains the times of the last resumptions under Epoch, the oldest first. A zero time
	// means that there were fewer.
	recent [maxResumes]time.Time
}

// BeginResponse records that a response with this ownership epoch has begun.
func (stream *Stream) BeginResponse(epoch uint64) {
	stream.responses++
	stream.Epoch = epoch
}

// Responses returns the number of responses that have begun.
func (stream *Stream) Responses() int { return stream.responses }

// IsResumption reports whether the request continues a stream of which the client has already
// received a part.
func (stream *Stream) IsResumption() bool { return stream.responses > 0 && stream.requested > 0 }

// MayResume reports whether the stream may be resumed now under this epoch, and records the
// resumption. A new epoch means that the shard has moved, so it always permits the resumption, and
// the new owner starts with the full number of resumptions.
func (stream *Stream) MayResume(epoch uint64, now time.Time) bool {
	if epoch != stream.Epoch {
		stream.recent = [maxResumes]time.Time{}
		return true
	}
	if oldest := stream.recent[0]; !oldest.IsZero() && now.Sub(oldest) < resumePeriod {
		return false
	}
	copy(stream.recent[:], stream.recent[1:])
	stream.recent[maxResumes-1] = now
	return true
}

// OwnerRestarting records that the owner restarts: it has ended its responses as planned, and will
// return with the same epoch. stream may be nil.
func (stream *Stream) OwnerRestarting() {
	if stream != nil {
		stream.Epoch, stream.recent = 0, [maxResumes]time.Time{}
	}
}

// CountRequest increments the number of requests to resume that may have reached an app. stream may
// be nil.
func (stream *Stream) CountRequest() {
	if stream != nil {
		stream.requested++
	}
}

// AppendHeaders appends the headers of a request to resume. id is the id of the last event.
func (stream *Stream) AppendHeaders(dst, id []byte) []byte {
	if len(id) > 0 {
		dst = append(dst, lineLastEvent...)
		dst = append(dst, id...)
		dst = append(dst, "\r\n"...)
	}
	return AppendResumed(dst, stream.requested+1)
}

// AppendResumed appends the line of HeaderResumed with the number n.
func AppendResumed(dst []byte, n uint64) []byte {
	dst = append(dst, lineResumed...)
	dst = strconv.AppendUint(dst, n, 10)
	return append(dst, "\r\n"...)
}

// IsResumableResponse reports whether a response is an event stream that can be resumed, or that can resume
// one. Its header must not contain fields that apply only to its own body.
func IsResumableResponse(res *h1.Response) bool {
	return IsEvents(res) && res.ContentLength() < 0 && res.Value("Content-Encoding") == nil && res.Value("Content-Range") == nil
}
