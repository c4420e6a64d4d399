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
)

// reply is what Shardway itself says to who asked: a problem, a refusal, the probe, and
// 1xx. It says as well with what changes an app's answer leaves, and notes in the
// exchange what becomes of the connection.
type reply struct{ *requestState }

// problem answers the request with a problem. Its body may still be unread.
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
		p.Epoch = r.s.o.Cluster.Table().committed
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

// write sends an answer of our own with these header lines. A body that
// is not worth reading away ends the connection.
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

// probe answers a request for Options.ProbePath.
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

// appendStatusLine appends a status line with the usual words.
func appendStatusLine(b []byte, status int, text string) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(b, text...)
	return append(b, "\r\n"...)
}

// failure answers with what an attempt came to.
func (r reply) failure(v decision) {
	p := &problem.Problem{Code: v.code, Detail: v.detail}
	if v.reason != 0 {
		p.Reason = v.reason.String()
	}
	if v.code == problem.PeerUnreachable && v.reason != 0 && !r.x.mayHaveRun() {
		p.Status = http.StatusServiceUnavailable // it has not run: come again
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

// bad answers bytes that are no proper request, and the connection ends.
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

// slow answers a head that did not come in time.
func (r reply) headerTimeout() {
	r.x.keep = false
	r.problem(&problem.Problem{Code: problem.RequestTimeout, Detail: "the request head did not arrive in time"})
}

// badBody answers a request whose body the client broke off or framed badly.
func (r reply) badBody(err error) decision {
	r.body.broken = true
	var bad *h1.Error
	switch {
	case errors.As(err, &bad):
		r.badRequest(bad)
	case errors.Is(err, errGivenUp):
		r.x.keep = false // it is read no more
		r.problem(&problem.Problem{Code: problem.RequestTimeout, Detail: "too many request bodies are arriving at once, and this was one of the slowest (--max-body-total)"})
	case errors.Is(err, os.ErrDeadlineExceeded):
		r.problem(&problem.Problem{Code: problem.RequestTimeout, Detail: "the request body stopped arriving or arrived too slowly (--idle-timeout, --min-body-rate)"})
	default:
		r.s.metrics.clientsGone.Add(1)
		r.x.aborted = true
	}
	return done
}

// refuseWait says no to a forwarded request that would have to wait. One that may have
// run is told so, whatever the ingress thinks of it.
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

// refuse tells the ingress that the request was not run, and by which map. The
// body has not been read.
func (r reply) refuse(why Refusal) {
	r.s.metrics.refused[why].Add(1)
	r.writeRefused(421, why.String(), r.s.o.Cluster.Table().mapValue)
	r.s.metrics.request(Remote, 421)
}

// writeRefused answers another node in one word, and says by which map.
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

// refusedAborted in an answer 502 says that the owner has cut the request, which may have
// run, because its process ends. Nodes that do not know it pass the 502 on.
const refusedAborted = "cut"

// parted is the last answer on a stream from another node: to a request that was cut, or
// that was not run, be it still on its way. It names no map that the other node would wait
// for: by its own it may find the next process here.
func (r reply) reportStopped(cut bool) {
	if w := r.conn.Writer(); w.Err() != nil || w.Pending() > 0 {
		return
	}
	r.x.keep = false
	noMap := appendMap(nil, 0, 0)
	if cut {
		r.writeRefused(502, refusedAborted, noMap)
		return
	}
	r.writeRefused(421, RefusedEnded.String(), noMap)
}

// interim passes a 1xx answer on to those who understand it. 100 is for
// clients that wait for it.
func (r reply) forwardInterim(res *h1.Response) error {
	if r.x.isResumption() || r.req.Minor() == 0 || res.Status() == 100 && !r.req.Expects() {
		return nil
	}
	r.edit = h1.Edit{Drop: h1.Shardway}
	w := r.conn.WriteResponseHead(res, &r.edit)
	return w.Close(nil)
}

// headerContinue marks a request whose ingress waits to hear that the app takes it,
// and the 100 that says so: for the body, or only to know. Its value in the request
// says which, and whether the client waits for a 100 of its own.
const headerContinue = "Shardway-Continue"

// taken tells the ingress, if it wants to know, that this node has admitted the
// request and that its app takes it: now the body may come.
func (r reply) sendAccepted() error {
	if r.x.bodyRequested || !r.x.onDemand && !r.x.wantAccepted {
		return nil
	}
	r.x.bodyRequested = true
	w := r.conn.Writer()
	w.PutString("HTTP/1.1 100 Continue\r\n" + headerContinue + ": 1\r\n\r\n")
	return w.Flush()
}

// requestBody has the body sent that is only sent when it is asked for.
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
