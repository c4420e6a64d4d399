package proxy

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/eventstream"
	"shardway/proxy/h1"
	"shardway/proxy/route"
)

// headerResumed is set in a request that resumes an event stream which the client is still reading.
// Its value is the number of such requests so far that may have reached an app.
const (
	headerResumed = "Shardway-Stream-Resumed"
	lineResumed   = headerResumed + ": "
	lineLastEvent = "Last-Event-ID: "
	// valueResume is the value of FieldShardwayStream with which an app permits resumption.
	valueResume = "resume"
)

// maxResumes limits how many requests may resume a stream within resumePeriod under the same
// ownership epoch. The limit ends a stream that the app repeatedly breaks. Requests before a
// planned restart of the owner do not count.
const (
	maxResumes   = 3
	resumePeriod = time.Minute
)

// resumableStream is an event stream whose client stays connected while the stream is requested
// again from the next owner of its shard. It exists only at the ingress. If an upstream response
// ends within an event, that event is not sent to the client. With the event ids of the app, the
// next request starts after the last event that was sent.
type resumableStream struct {
	buffer    eventstream.Buffer
	responses int    // number of responses that have begun
	requested uint64 // number of requests to resume that may have reached an app
	epoch     uint64 // ownership epoch of the last response
	ended     bool   // the last response has ended, and another one must follow
	recent    [maxResumes]time.Time
}

// mayFollow reports whether the stream may be resumed now under this epoch, and records the
// resumption.
func (k *resumableStream) mayFollow(epoch uint64, now time.Time) bool {
	if epoch != k.epoch {
		return true
	}
	if first := k.recent[0]; !first.IsZero() && now.Sub(first) < resumePeriod {
		return false
	}
	copy(k.recent[:], k.recent[1:])
	k.recent[maxResumes-1] = now
	return true
}

// ownerRestarting records that the owner restarts: it has ended its responses as planned, and will
// return with the same epoch. k may be nil.
func (k *resumableStream) ownerRestarting() {
	if k != nil {
		k.epoch, k.recent = 0, [maxResumes]time.Time{}
	}
}

// countRequest increments the number of requests to resume that may have reached an app. k may be
// nil.
func (k *resumableStream) countRequest() {
	if k != nil {
		k.requested++
	}
}

// appendHeaders appends the headers of a request to resume. id is the id of the last event.
func (k *resumableStream) appendHeaders(b, id []byte) []byte {
	if len(id) > 0 {
		b = append(b, lineLastEvent...)
		b = append(b, id...)
		b = append(b, "\r\n"...)
	}
	return appendResumed(b, k.requested+1)
}

func appendResumed(b []byte, n uint64) []byte {
	b = append(b, lineResumed...)
	b = strconv.AppendUint(b, n, 10)
	return append(b, "\r\n"...)
}

// isResumable reports whether a response is an event stream that can be resumed, or that can resume
// one. Its header must not contain fields that apply only to its own body.
func isResumable(res *h1.Response) bool {
	return isEvents(res) && res.ContentLength() < 0 && res.Value("Content-Encoding") == nil && res.Value("Content-Range") == nil
}

// permitsResume reports whether the app permits resumption and resumption is possible: the request
// can be repeated unchanged, and its shard has an owner.
func (y *responseRelay) permitsResume(p *attempt) bool {
	return strings.EqualFold(string(p.conn.res.Known(h1.FieldShardwayStream)), valueResume) && isResumable(&p.conn.res) &&
		string(y.req.Method()) == "GET" && y.req.Body.Kind() == h1.NoBody && !y.req.RequestsUpgrade() && y.req.Value("Range") == nil &&
		!y.exchange.Keyless && p.conn.inproc == nil
}

// beginEvents starts an event stream, resumable or not, and returns the flags for its run.
func (y *responseRelay) beginEvents(p *attempt) uint64 {
	y.escaped = true
	word, e, run := y.permitsResume(p), &y.slot.events, y.slot.load().number
	switch k := y.exchange.resumed; {
	case k != nil:
		e.resume(run, word)
	case word && y.ingress == "":
		k = &resumableStream{}
		y.exchange.resumed = k
		y.server.metrics.resumable.Add(1)
		e.begin(run, word, false, &k.buffer)
	default:
		e.begin(run, word, y.exchange.wasResumed > 0, nil)
		return slotResponseBegun | slotEvents
	}
	y.exchange.resumed.responses++
	y.exchange.resumed.epoch = p.epoch
	return slotResponseBegun | slotEvents | slotResumable
}

// cancelEvents discards the stream of a first response of which no byte was sent.
func (y *responseRelay) cancelEvents() {
	if y.exchange.resumed != nil && !y.exchange.isStreamResumption() {
		y.exchange.resumed = nil
		y.server.metrics.resumable.Add(-1)
	}
}

// continuesStream decides what follows for a stream whose response was truncated. If it returns
// true, the stream must be resumed, and the attempt has ended. The client has then received
// complete events only, unless an event exceeds the buffer.
func (y *responseRelay) continuesStream(p *attempt, rerr, werr error) bool {
	k := y.exchange.resumed
	if k == nil || werr != nil || y.server.closing.Load() {
		return false
	}
	if why := y.slot.load().cause; why == causeClientGone || why == causeShutdown || why == causeLeaving {
		return false
	}
	var bad *h1.Error
	if y.slot.events.resumableFlag() == 0 || k.buffer.InEvent() || errors.As(rerr, &bad) {
		y.server.metrics.resumptions[resumeUnfit].Add(1)
		return false
	}
	if y.conn.Writer().Flush() != nil {
		return false
	}
	p.abort()
	k.ended = true
	return true
}

// brokeAtOwner reports whether the connection to the app broke at another node before a response.
// That node does not repeat a request to resume, because the repeated request needs a higher
// number.
func brokeAtOwner(p *attempt) bool { return isOwnerProblem(p, problem.UpstreamBroken) }

// drainedAtOwner reports whether another node has cancelled the request before its app responded,
// because the shard moves or the node is leaving.
func drainedAtOwner(p *attempt) bool { return isOwnerProblem(p, problem.ShardMoved) }

func isOwnerProblem(p *attempt, code problem.Code) bool {
	return p.route.Kind == route.Remote && string(p.conn.res.Known(h1.FieldShardwayError)) == string(code)
}

// handleUnansweredResume ends an attempt to resume a stream for which another node has reported an
// error instead of a response of its app.
func (c *client) handleUnansweredResume(p *attempt) decision {
	c.exchange.resumed.countRequest()
	if brokeAtOwner(p) {
		return c.handleBroken(p, nil)
	}
	if p.abort(); c.closing.Load() {
		return done
	}
	return c.retryAtNextOwner(p)
}

// retryAtNextOwner sends a request to resume to the next owner, after the app has not responded to
// it within drain-timeout. The stream has then been affected by two planned moves. If an owner
// reports the same again under the same epoch, the shard has not moved, so mayFollow limits the
// number of attempts.
func (c *client) retryAtNextOwner(p *attempt) decision {
	k := c.exchange.resumed
	if !k.mayFollow(p.epoch, time.Now()) {
		c.reply.giveUp(resumeUnfit, "its requests were drained too often at one owner")
		return done
	}
	k.epoch = p.epoch
	c.resetRetries()
	return decision{action: actionRetry}
}

// acceptsResumption checks the response to a request to resume. It returns false if the response
// cannot continue the stream, which then ends.
func (c *client) acceptsResumption(p *attempt) bool {
	k := c.exchange.resumed
	k.requested++
	var detail string
	switch {
	case !isResumable(&p.conn.res):
		detail = "the answer to its request is no event stream that goes on: status " + strconv.Itoa(p.conn.res.Status())
	case !k.mayFollow(p.epoch, time.Now()):
		detail = "it broke off too often at one owner"
	default:
		return true
	}
	p.abort()
	c.reply.giveUp(resumeUnfit, detail)
	return false
}

// nextStream prepares the exchange for the request that resumes the stream.
func (c *client) nextStream() {
	x := &c.exchange
	x.resumed.ended = false
	if x.account.upstreamConn = x.resumed.responses; !x.account.began.IsZero() {
		accessLine{&c.requestState, &c.keys}.write()
		x.account.openNext(c.conn)
	}
	c.resetRetries()
}

// resetRetries gives the next request its own number of attempts and the full QueueWait.
func (c *client) resetRetries() {
	c.resetWait()
	x := &c.exchange
	x.tries, x.reusedTries, x.responsesBegun, x.notAcquired, x.runAborted, x.lastCrash = 0, 0, 0, 0, false, nil
}

// resetWait gives the next request the full QueueWait.
func (c *client) resetWait() {
	x := &c.exchange
	c.server.metrics.observeWait(x)
	x.waited, x.waitTime, x.deadline, x.pause = false, 0, time.Time{}, 0
}

// giveUp ends a stream that cannot be resumed. The client receives a truncated response.
func (r reply) giveUp(why resumeEnd, detail string) {
	r.server.metrics.resumptions[why].Add(1)
	r.server.options.Log.Debug().Uint32("shard", uint32(r.exchange.shard)).Str("detail", detail).Msg("event stream not resumed")
	r.conn.Writer().Abort()
	r.exchange.aborted, r.exchange.account.code = true, accessAborted
}
