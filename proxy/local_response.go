package proxy

import (
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/proxy/route"
)

// reply sends the responses of Shardway itself: problems, refusals, the probe, and 1xx. It also
// decides which changes the header of an app's response needs, and records in the exchange whether
// the connection can be kept.
type reply struct{ *requestState }

// problem responds to the request with a problem document. The body of the request may still be
// unread.
func (r reply) problem(p *problem.Problem) {
	if r.x.aborted {
		return
	}
	status := p.StatusCode()
	if p.RetryAfter == 0 && status == http.StatusServiceUnavailable {
		p.RetryAfter = time.Second
	}
	p.Node = r.s.o.Node
	if r.x.sharded {
		p.Shard, p.HasShard = uint32(r.x.shard), true
		p.Epoch = r.s.o.Cluster.Table().Committed()
	}
	b := append(r.extra[:0], "Content-Type: "+problem.ContentType+"\r\nCache-Control: no-store\r\n"+problem.HeaderError+": "...)
	b = append(b, p.Code...)
	b = append(b, "\r\n"...)
	if s := p.RetryAfterSeconds(); s > 0 {
		b = append(b, "Retry-After: "...)
		b = strconv.AppendInt(b, int64(s), 10)
		b = append(b, "\r\n"...)
	}
	r.extra = b
	r.x.account.code = p.Code
	r.s.metrics.problem(p.Code)
	r.s.metrics.request(r.x.routeOf(), status)
	r.s.o.Log.Debug().Str("error", string(p.Code)).Int("status", status).Uint32("shard", uint32(r.x.shard)).
		Str("detail", p.Detail).Msg("request failed")
	r.write(status, append(p.AppendJSON(make([]byte, 0, 512)), '\n'), b)
}

// write sends a response of Shardway with these header lines. If the unread body is too long to be
// discarded, the connection is closed after the response.
func (r reply) write(status int, body, lines []byte) {
	if (!r.x.onDemand || r.x.bodyRequested) && !r.mayKeep() {
		r.x.keep = false
	}
	r.x.account.answered(status, nil, r.x.route)
	w := r.conn.Writer()
	b := appendStatusLine(make([]byte, 0, 256+len(lines)), status, fasthttp.StatusMessage(status))
	b = append(b, "Date: "...)
	b = append(b, r.s.date()...)
	b = append(b, "\r\n"...)
	b = append(b, lines...)
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	b = append(b, "\r\n"...)
	switch {
	case !r.x.keep:
		b = append(b, "Connection: close\r\n"...)
	case r.req.Minor() == 0:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	w.Put(append(b, "\r\n"...))
	if !r.req.IsHead() {
		w.Put(body)
	}
	if w.Flush() != nil {
		r.x.aborted = true
	}
}

// probe responds to a request for Settings.ProbePath. It reports false for any other request.
func (r reply) probe() bool {
	path := r.set.ProbePath
	if path == "" || string(r.req.Path()) != path || r.s.o.Probe == nil {
		return false
	}
	status, text := 200, "ready\n"
	if ready, reason := r.s.o.Probe(); !ready {
		status, text = 503, reason+"\n"
	}
	r.write(status, []byte(text), []byte("Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n"))
	return true
}

// appendStatusLine appends the status line of a response.
func appendStatusLine(b []byte, status int, text string) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(b, text...)
	return append(b, "\r\n"...)
}

// failure responds with the problem that a decision describes.
func (r reply) failure(v decision) {
	p := &problem.Problem{Code: v.code, Detail: v.detail}
	if v.reason != 0 {
		p.Reason = v.reason.String()
	}
	if v.code == problem.PeerUnreachable && v.reason != 0 && !r.x.mayHaveRun() {
		p.Status = http.StatusServiceUnavailable // it has not run, so the client may retry
	}
	r.s.explained(p, v.reason)
	if v.code == problem.Quarantined {
		p.RetryAfter = quarantineRetry
	}
	if v.code == problem.UpstreamRefused {
		p.RetryAfter = time.Second
	}
	r.problem(p)
}

// badRequest responds to a malformed request. The connection is closed.
func (r reply) badRequest(bad *h1.Error) {
	r.x.keep = false
	p := &problem.Problem{Code: problem.BadRequest, Status: bad.Status(), Detail: bad.Reason()}
	switch bad.Status() {
	case http.StatusRequestEntityTooLarge:
		p.Code = problem.TooLarge
	case http.StatusRequestURITooLong:
		p.Code = problem.URITooLong
	case http.StatusRequestHeaderFieldsTooLarge:
		p.Code = problem.HeadersTooLarge
	}
	r.problem(p)
}

// headerTimeout responds to a request whose header did not arrive in time.
func (r reply) headerTimeout() {
	r.x.keep = false
	r.problem(&problem.Problem{Code: problem.RequestTimeout, Detail: "the request head did not arrive in time"})
}

// badBody responds to a request whose body the client broke off or framed incorrectly.
func (r reply) badBody(err error) decision {
	r.body.broken = true
	var bad *h1.Error
	switch {
	case errors.As(err, &bad):
		r.badRequest(bad)
	case errors.Is(err, errGivenUp):
		r.x.keep = false // the rest of the body is not read
		r.problem(&problem.Problem{Code: problem.RequestTimeout, Detail: "too many request bodies are arriving at once, and this was one of the slowest (--max-body-total)"})
	case errors.Is(err, os.ErrDeadlineExceeded):
		r.problem(&problem.Problem{Code: problem.RequestTimeout, Detail: "the request body stopped arriving or arrived too slowly (--idle-timeout, --min-body-rate)"})
	default:
		r.s.metrics.clientsGone.Add(1)
		r.x.aborted = true
	}
	return done
}

// refuseWait rejects a forwarded request that would have to wait here. If the request may have run,
// the response says so, even if the ingress would not retry it.
func (r reply) refuseWait(v decision) {
	switch {
	case r.x.mayHaveRun() && r.x.safety != safeMethod:
		r.failure(fail(problem.UpstreamBroken, detailMayHaveRun))
	case v.refusal == 0:
		r.failure(decision{action: actionFail, code: v.code, detail: v.detail})
	default:
		r.refuse(v.refusal)
	}
}

// refuse tells the ingress that the request was not run, and the map by which it was refused. The
// body has not been read.
func (r reply) refuse(why route.Refusal) {
	r.s.metrics.refused[why].Add(1)
	r.writeRefused(421, why.String(), r.s.o.Cluster.Table().EpochsHeader())
	r.s.metrics.request(route.Remote, 421)
}

// writeRefused sends a refusal, and the map by which it was decided, to another node.
func (r reply) writeRefused(status int, word string, by []byte) {
	r.extra = append(r.extra[:0], "Shardway-Refused: "...)
	r.extra = append(r.extra, word...)
	r.extra = append(r.extra, "\r\n"+lineMap...)
	r.extra = append(r.extra, by...)
	r.extra = append(r.extra, "\r\n"+lineNode...)
	r.extra = append(r.extra, r.s.o.Node...)
	r.extra = append(r.extra, "\r\n"...)
	r.extra = r.x.appendTries(r.extra)
	r.write(status, nil, r.extra)
}

// refusedAborted in a 502 response means that the owner has cancelled the request, which may have
// run, because its process ends.
const refusedAborted = "cut"

// reportStopped sends the last response on a stream from another node: to a request that was
// cancelled, or that was not run. It names no map, because the other node must not wait for one: by
// its own map it may find the next process of this node.
func (r reply) reportStopped(cut bool) {
	if w := r.conn.Writer(); w.Err() != nil || w.Pending() > 0 {
		return
	}
	r.x.keep = false
	noMap := route.AppendEpochs(nil, 0, 0)
	if cut {
		r.writeRefused(502, refusedAborted, noMap)
		return
	}
	r.writeRefused(421, route.RefusedEnded.String(), noMap)
}

// forwardInterim sends a 1xx response to clients that understand it. Only clients that wait for it
// get 100.
func (r reply) forwardInterim(res *h1.Response) error {
	if r.x.isResumption() || r.req.Minor() == 0 || res.Status() == 100 && !r.req.Expects() {
		return nil
	}
	r.edit = h1.Edit{Drop: h1.Shardway}
	w := r.conn.WriteResponseHeader(res, &r.edit)
	return w.Close(nil)
}

// headerContinue marks a request whose ingress wants to know that the app accepts it, and the 100
// response that reports it. The value in the request says whether the body depends on it, and
// whether the client waits for a 100 itself.
const headerContinue = "Shardway-Continue"

// sendAccepted tells the ingress, if it wants to know, that this node has admitted the request and
// that its app accepts it. Then the body may follow.
func (r reply) sendAccepted() error {
	if r.x.bodyRequested || !r.x.onDemand && !r.x.wantAccepted {
		return nil
	}
	r.x.bodyRequested = true
	w := r.conn.Writer()
	w.PutString("HTTP/1.1 100 Continue\r\n" + headerContinue + ": 1\r\n\r\n")
	return w.Flush()
}

// requestBody makes the sender send a body that is sent on request only.
func (r reply) requestBody() error {
	if err := r.sendAccepted(); err != nil {
		return err
	}
	if r.x.onDemand && !r.x.clientExpects || !r.req.Expects() || len(r.conn.Buffered()) > 0 || r.req.Minor() == 0 {
		return nil
	}
	w := r.conn.Writer()
	w.PutString("HTTP/1.1 100 Continue\r\n\r\n")
	return w.Flush()
}
