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

// Stream keeps a client's event stream open while its shard moves: the ingress requests the stream again from the
// shard's new owner. If an upstream response ends within an event, that event is not sent to the client. If the app
// sets event IDs, the next request continues after the last event that was sent.
type Stream struct {
	Buffer eventstream.Buffer // contains the incomplete event
	Epoch  uint64             // ownership epoch of the last response
	Ended  bool               // the last response has ended, and another must follow

	responses      int    // number of responses that have begun
	resumeRequests uint64 // number of resume requests that may have reached an app
	// recentResumes contains the times of the latest resumptions under Epoch, oldest first. Unused entries are zero.
	recentResumes [maxResumes]time.Time
}

// BeginResponse records that a response with this ownership epoch has begun.
func (stream *Stream) BeginResponse(epoch uint64) {
	stream.responses++
	stream.Epoch = epoch
}

// Responses returns the number of responses that have begun.
func (stream *Stream) Responses() int { return stream.responses }

// IsResumption reports whether the request continues a stream whose client has already received part of it.
func (stream *Stream) IsResumption() bool { return stream.responses > 0 && stream.resumeRequests > 0 }

// TryResume reports whether the stream may be resumed now under this epoch, and if so records the resumption. It always
// permits a resumption under a new epoch, because the shard has moved. The new owner starts with the full number of
// resumptions.
func (stream *Stream) TryResume(epoch uint64, now time.Time) bool {
	if epoch != stream.Epoch {
		stream.recentResumes = [maxResumes]time.Time{}
		return true
	}
	if oldest := stream.recentResumes[0]; !oldest.IsZero() && now.Sub(oldest) < resumePeriod {
		return false
	}
	copy(stream.recentResumes[:], stream.recentResumes[1:])
	stream.recentResumes[maxResumes-1] = now
	return true
}

// OwnerRestarting records that the owner is restarting: it has ended its responses as planned, and will return with the
// same epoch. stream may be nil.
func (stream *Stream) OwnerRestarting() {
	if stream != nil {
		stream.Epoch, stream.recentResumes = 0, [maxResumes]time.Time{}
	}
}

// CountRequest counts a resume request that may have reached an app. stream may be nil.
func (stream *Stream) CountRequest() {
	if stream != nil {
		stream.resumeRequests++
	}
}

// AppendHeaders appends the headers of a resume request. id is the ID of the last event.
func (stream *Stream) AppendHeaders(dst, id []byte) []byte {
	if len(id) > 0 {
		dst = append(dst, lineLastEvent...)
		dst = append(dst, id...)
		dst = append(dst, "\r\n"...)
	}
	return AppendResumed(dst, stream.resumeRequests+1)
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
