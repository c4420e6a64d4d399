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
	"shardway/proxy/reqbody"
	"shardway/proxy/route"
)

// reply sends the responses of Shardway itself: problem documents, refusals, probe results and 1xx
// responses. It also determines the changes to the header of an app's response, and whether the
// connection can be kept.
type reply struct{ *requestState }

// sendProblem sends a problem document as the response. The body of the request may still be unread.
func (r reply) sendProblem(prob *problem.Problem) {
	if r.exchange.connAborted {
		return
	}
	status := prob.StatusCode()
	if prob.RetryAfter == 0 && status == http.StatusServiceUnavailable {
		prob.RetryAfter = time.Second
	}
	prob.Node = r.server.options.Node
	if r.exchange.hasShard {
		prob.Shard, prob.HasShard = uint32(r.exchange.shard), true
		prob.Epoch = r.server.options.Cluster.Table().Committed()
	}
	dst := append(r.extraLines[:0], "Content-Type: "+problem.ContentType+"\r\nCache-Control: no-store\r\n"+problem.HeaderError+": "...)
	dst = append(dst, prob.Code...)
	dst = append(dst, "\r\n"...)
	if s := prob.RetryAfterSeconds(); s > 0 {
		dst = append(dst, "Retry-After: "...)
		dst = strconv.AppendInt(dst, int64(s), 10)
		dst = append(dst, "\r\n"...)
	}
	r.extraLines = dst
	r.exchange.account.code = prob.Code
	r.server.metrics.CountProblem(prob.Code)
	r.server.metrics.CountResponse(r.exchange.routeKind(), status)
	r.server.options.Log.Debug().Str("error", string(prob.Code)).Int("status", status).Uint32("shard", uint32(r.exchange.shard)).
		Str("detail", prob.Detail).Msg("request failed")
	r.write(status, append(prob.AppendJSON(make([]byte, 0, 512)), '\n'), dst)
}

// write sends a response of Shardway. lines contains additional header lines. If the unread body is
// too long to be discarded, the connection is closed after the response.
func (r reply) write(status int, body, lines []byte) {
	if (!r.exchange.bodyOnDemand || r.exchange.bodyRequested) && !r.canKeepConn() {
		r.exchange.keepAlive = false
	}
	r.exchange.account.recordResponse(status, nil, r.exchange.lastRoute)
	writer := r.conn.Writer()
	dst := appendStatusLine(make([]byte, 0, 256+len(lines)), status, fasthttp.StatusMessage(status))
	dst = append(dst, "Date: "...)
	dst = append(dst, r.server.date()...)
	dst = append(dst, "\r\n"...)
	dst = append(dst, lines...)
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(body)), 10)
	dst = append(dst, "\r\n"...)
	switch {
	case !r.exchange.keepAlive:
		dst = append(dst, "Connection: close\r\n"...)
	case r.req.Minor() == 0:
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	writer.Put(append(dst, "\r\n"...))
	if !r.req.IsHead() {
		writer.Put(body)
	}
	if writer.Flush() != nil {
		r.exchange.connAborted = true
	}
}

// respondToProbe responds to a request for Settings.ProbePath. It returns false for any other request.
func (r reply) respondToProbe() bool {
	path := r.settings.ProbePath
	if path == "" || string(r.req.Path()) != path || r.server.options.Probe == nil {
		return false
	}
	status, text := 200, "ready\n"
	if ready, reason := r.server.options.Probe(); !ready {
		status, text = 503, reason+"\n"
	}
	r.write(status, []byte(text), []byte("Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n"))
	return true
}

// appendStatusLine appends the status line of a response.
func appendStatusLine(dst []byte, status int, text string) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	dst = append(dst, text...)
	return append(dst, "\r\n"...)
}

// sendFailure sends the problem document that result describes.
func (r reply) sendFailure(result decision) {
	prob := &problem.Problem{Code: result.code, Detail: result.detail}
	if result.reason != 0 {
		prob.Reason = result.reason.String()
	}
	if result.code == problem.PeerUnreachable && result.reason != 0 && !r.exchange.mayHaveRun() {
		prob.Status = http.StatusServiceUnavailable // the request has not run, so the client may retry
	}
	r.server.explained(prob, result.reason)
	if result.code == problem.Quarantined {
		prob.RetryAfter = quarantineRetry
	}
	if result.code == problem.UpstreamRefused {
		prob.RetryAfter = time.Second
	}
	r.sendProblem(prob)
}

// rejectRequest responds to a malformed request, and closes the connection.
func (r reply) rejectRequest(malformed *h1.Error) {
	r.exchange.keepAlive = false
	prob := &problem.Problem{Code: problem.BadRequest, Status: malformed.Status(), Detail: malformed.Reason()}
	switch malformed.Status() {
	case http.StatusRequestEntityTooLarge:
		prob.Code = problem.TooLarge
	case http.StatusRequestURITooLong:
		prob.Code = problem.URITooLong
	case http.StatusRequestHeaderFieldsTooLarge:
		prob.Code = problem.HeadersTooLarge
	}
	r.sendProblem(prob)
}

// rejectLateHeader responds to a request whose header has not arrived in time, and closes the
// connection.
func (r reply) rejectLateHeader() {
	r.exchange.keepAlive = false
	r.sendProblem(&problem.Problem{Code: problem.RequestTimeout, Detail: "the request head did not arrive in time"})
}

// rejectBody handles a request whose body the client has truncated or framed incorrectly.
func (r reply) rejectBody(err error) decision {
	r.body.Unreadable = true
	var malformed *h1.Error
	switch {
	case errors.As(err, &malformed):
		r.rejectRequest(malformed)
	case errors.Is(err, reqbody.ErrMemoryLimit):
		r.exchange.keepAlive = false // the rest of the body is not read, so the connection must close
		r.sendProblem(&problem.Problem{Code: problem.RequestTimeout, Detail: "too many request bodies are arriving at once, and this was one of the slowest (--max-body-total)"})
	case errors.Is(err, os.ErrDeadlineExceeded):
		r.sendProblem(&problem.Problem{Code: problem.RequestTimeout, Detail: "the request body stopped arriving or arrived too slowly (--idle-timeout, --min-body-rate)"})
	default:
		r.server.metrics.ClientDisconnects.Add(1)
		r.exchange.connAborted = true
	}
	return done
}

// refuseWait rejects a forwarded request that would have to wait at this node. If the request may
// have run, the response contains that information, even if the ingress would not retry the
// request.
func (r reply) refuseWait(result decision) {
	switch {
	case r.exchange.mayHaveRun() && r.exchange.safety != safeMethod:
		r.sendFailure(fail(problem.UpstreamBroken, detailMayHaveRun))
	case result.refusal == 0:
		r.sendFailure(decision{action: actionFail, code: result.code, detail: result.detail})
	default:
		r.refuse(result.refusal)
	}
}

// refuse rejects a forwarded request that has not run. The response contains the reason and the
// epochs of this node's table. The body has not been read.
func (r reply) refuse(refusal route.Refusal) {
	r.server.metrics.Refused[refusal].Add(1)
	r.writeRefused(421, refusal.String(), r.server.options.Cluster.Table().MapHeaderValue())
	r.server.metrics.CountResponse(route.Remote, 421)
}

// writeRefused sends a refusal to another node. epochs contains the epochs of the table that caused
// it.
func (r reply) writeRefused(status int, reason string, epochs []byte) {
	r.extraLines = append(r.extraLines[:0], "Shardway-Refused: "...)
	r.extraLines = append(r.extraLines, reason...)
	r.extraLines = append(r.extraLines, "\r\n"+lineMap...)
	r.extraLines = append(r.extraLines, epochs...)
	r.extraLines = append(r.extraLines, "\r\n"+lineNode...)
	r.extraLines = append(r.extraLines, r.server.options.Node...)
	r.extraLines = append(r.extraLines, "\r\n"...)
	r.extraLines = r.exchange.appendTries(r.extraLines)
	r.write(status, nil, r.extraLines)
}

// refusedAborted is the reason in a 502 response of an owner whose process stops. It means that the
// owner has cancelled the request, and that the request may have run.
const refusedAborted = "cut"

// reportStopped sends the last response on a stream from another node. aborted means that its
// request was cancelled and may have run; otherwise it has not run. The response contains no
// epochs, because the other node must not wait for a newer table: its current table may already
// route to the next process of this node.
func (r reply) reportStopped(aborted bool) {
	if writer := r.conn.Writer(); writer.Err() != nil || writer.Pending() > 0 {
		return
	}
	r.exchange.keepAlive = false
	zeroEpochs := route.AppendEpochs(nil, 0, 0)
	if aborted {
		r.writeRefused(502, refusedAborted, zeroEpochs)
		return
	}
	r.writeRefused(421, route.RefusedStopping.String(), zeroEpochs)
}

// forwardInterim forwards a 1xx response to clients that understand it. It forwards 100 only to
// clients that have sent Expect.
func (r reply) forwardInterim(res *h1.Response) error {
	if r.exchange.isResumption() || r.req.Minor() == 0 || res.Status() == 100 && !r.req.ExpectsContinue() {
		return nil
	}
	r.headerEdit = h1.Edit{Drop: h1.Shardway}
	writer := r.conn.WriteResponseHeader(res, &r.headerEdit)
	return writer.Close(nil)
}

// headerContinue is set in a request whose ingress needs to learn early that the app accepts it,
// and in the 100 response with that information. Its value in the request tells whether the body is
// sent only after that response, and whether the client itself waits for a 100.
const headerContinue = "Shardway-Continue"

// sendAccepted reports to the ingress, if it has requested that, that this node has admitted the
// request and that its app accepts it. The ingress then sends the body.
func (r reply) sendAccepted() error {
	if r.exchange.bodyRequested || !r.exchange.bodyOnDemand && !r.exchange.wantsAcceptance {
		return nil
	}
	r.exchange.bodyRequested = true
	writer := r.conn.Writer()
	writer.PutString("HTTP/1.1 100 Continue\r\n" + headerContinue + ": 1\r\n\r\n")
	return writer.Flush()
}

// requestBody makes the client or the ingress send a body that it sends only on demand.
func (r reply) requestBody() error {
	if err := r.sendAccepted(); err != nil {
		return err
	}
	if r.exchange.bodyOnDemand && !r.exchange.clientExpectsContinue || !r.req.ExpectsContinue() || len(r.conn.Buffered()) > 0 || r.req.Minor() == 0 {
		return nil
	}
	writer := r.conn.Writer()
	writer.PutString("HTTP/1.1 100 Continue\r\n\r\n")
	return writer.Flush()
}
