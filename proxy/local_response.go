package proxy

import (
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/proxy/reqbody"
	"shardway/proxy/route"
	"shardway/proxy/wsfirst"
)

// reply sends Shardway's own responses: problem documents, refusals, probe results and 1xx
// responses. It also determines how the header of an app's response is changed, and whether the
// connection can be kept.
type reply struct{ *requestState }

// sendProblem sends a problem document as the response. The body of the request may still be unread.
func (reply reply) sendProblem(prob *problem.Problem) { reply.sendProblemWith(prob, nil) }

// sendProblemWith is like sendProblem, with additional header lines.
func (reply reply) sendProblemWith(prob *problem.Problem, lines []byte) {
	if reply.exchange.accepted != nil {
		reply.closeAccepted(prob)
		return
	}
	if reply.exchange.connAborted {
		return
	}
	status := prob.StatusCode()
	if prob.RetryAfter == 0 && status == http.StatusServiceUnavailable {
		prob.RetryAfter = time.Second
	}
	prob.Node = reply.server.options.Node
	prob.Service = reply.exchange.service
	if reply.exchange.hasShard {
		prob.Shard, prob.HasShard = uint32(reply.exchange.shardInService()), true
		prob.Epoch = reply.server.options.Cluster.Table().Committed()
	}
	reply.extraLines = append(appendProblemLines(reply.extraLines[:0], prob), lines...)
	if status == http.StatusUpgradeRequired {
		reply.extraLines = append(reply.extraLines, wsfirst.VersionLine...)
	}
	reply.exchange.account.Code = prob.Code
	reply.server.metrics.CountProblem(prob.Code)
	reply.server.metrics.CountResponse(reply.exchange.routeKind(), status)
	reply.server.options.Log.Debug().Str("error", string(prob.Code)).Int("status", status).Uint32("shard", uint32(reply.exchange.shard)).
		Str("detail", prob.Detail).Msg("request failed")
	document := append(prob.AppendJSON(make([]byte, 0, 512)), '\n')
	reply.write(status, document, reply.extraLines)
}

// appendProblemLines appends the header lines of a problem document.
func appendProblemLines(dst []byte, prob *problem.Problem) []byte {
	dst = append(dst, "Content-Type: "+problem.ContentType+"\r\nCache-Control: no-store\r\n"+problem.HeaderError+": "...)
	dst = append(dst, prob.Code...)
	dst = append(dst, "\r\n"...)
	if seconds := prob.RetryAfterSeconds(); seconds > 0 {
		dst = append(dst, "Retry-After: "...)
		dst = strconv.AppendInt(dst, int64(seconds), 10)
		dst = append(dst, "\r\n"...)
	}
	return dst
}

// write sends a response of Shardway. lines contains additional header lines. If the unread body of the
// request is too long to be discarded, the connection is closed after the response.
func (reply reply) write(status int, body, lines []byte) {
	bodyWillNotFollow := reply.exchange.ingressHoldsBody && !reply.exchange.acceptanceSent // the ingress holds it back
	if !bodyWillNotFollow && !reply.canKeepConn() {
		reply.exchange.keepAlive = false
	}
	reply.exchange.account.RecordResponse(status, nil, reply.exchange.lastRoute)
	dst := append(make([]byte, 0, 64+len(lines)), "Date: "...)
	dst = append(dst, reply.server.clock.Date()...)
	dst = append(dst, "\r\n"...)
	dst = append(dst, lines...)
	if reply.inbound.WriteLocal(status, dst, body, reply.exchange.keepAlive) != nil {
		reply.exchange.connAborted = true
	}
}

// respondToProbe responds to a request for Settings.ProbePath. It returns false for any other request.
func (reply reply) respondToProbe() bool {
	path := reply.settings.ProbePath
	if path == "" || string(reply.req.Path()) != path || reply.server.options.Probe == nil {
		return false
	}
	status, text := 200, "ready\n"
	if ready, reason := reply.server.options.Probe(); !ready {
		status, text = 503, reason+"\n"
	}
	reply.write(status, []byte(text), []byte("Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n"))
	return true
}

// sendFailure sends the problem document described by result. If result has a reason, the request
// has waited.
func (reply reply) sendFailure(result decision) {
	prob := &problem.Problem{Code: result.code, Detail: result.detail}
	if result.reason != 0 {
		prob.Reason = result.reason.String()
	}
	hasOnlyWaited := result.reason != 0 && !reply.exchange.mayHaveRun()
	if result.code == problem.PeerUnreachable && hasOnlyWaited {
		prob.Status = http.StatusServiceUnavailable // the request has not run, so the client may retry
	}
	reply.server.explain.AddFinding(prob, result.reason)
	if result.code == problem.Quarantined {
		prob.RetryAfter = quarantineRetry
	}
	if result.code == problem.UpstreamRefused {
		prob.RetryAfter = time.Second
	}
	reply.sendProblem(prob)
}

// rejectRequest responds to a malformed request, and closes the connection.
func (reply reply) rejectRequest(malformed *h1.Error) {
	reply.exchange.keepAlive = false
	prob := &problem.Problem{Code: problem.BadRequest, Status: malformed.Status(), Detail: malformed.Reason()}
	switch malformed.Status() {
	case http.StatusRequestEntityTooLarge:
		prob.Code = problem.TooLarge
	case http.StatusRequestURITooLong:
		prob.Code = problem.URITooLong
	case http.StatusRequestHeaderFieldsTooLarge:
		prob.Code = problem.HeadersTooLarge
	}
	reply.sendProblem(prob)
}

// rejectLateHeader responds to a request whose header has not arrived in time, and closes the
// connection.
func (reply reply) rejectLateHeader() {
	reply.exchange.keepAlive = false
	reply.sendProblem(&problem.Problem{Code: problem.RequestTimeout, Detail: "the request head did not arrive in time"})
}

// rejectBody handles a request whose body the client has truncated or framed incorrectly.
func (reply reply) rejectBody(err error) decision {
	reply.body.Unreadable = true
	var malformed *h1.Error
	switch {
	case errors.As(err, &malformed):
		reply.rejectRequest(malformed)
	case errors.Is(err, reqbody.ErrMemoryLimit):
		reply.exchange.keepAlive = false // the rest of the body is not read, so the connection must close
		reply.sendProblem(&problem.Problem{Code: problem.RequestTimeout, Detail: "too many request bodies are arriving at once, and this was one of the slowest (--max-body-total)"})
	case errors.Is(err, reqbody.ErrTotalTimeout):
		reply.sendProblem(&problem.Problem{Code: problem.RequestTimeout, Detail: "the request body did not arrive within the total timeout (--total-timeout, or total_timeout of its route)"})
	case errors.Is(err, os.ErrDeadlineExceeded):
		reply.sendProblem(&problem.Problem{Code: problem.RequestTimeout, Detail: "the request body stopped arriving or arrived too slowly (--idle-timeout, --min-body-rate)"})
	default:
		reply.server.metrics.ClientDisconnects.Add(1)
		reply.exchange.connAborted = true
	}
	return done
}

// refuseWait rejects a forwarded request that would have to wait at this node. If the request may
// have run, the response contains that information, even if the ingress would not retry the
// request.
func (reply reply) refuseWait(result decision) {
	switch {
	case reply.exchange.mayHaveRun() && reply.exchange.safety != safeMethod:
		reply.sendFailure(fail(problem.UpstreamBroken, detailMayHaveRun))
	case result.refusal == 0:
		reply.sendFailure(decision{action: actionFail, code: result.code, detail: result.detail})
	default:
		reply.refuse(result.refusal)
	}
}

// refuse rejects a forwarded request that has not run. The response contains the reason and the
// epochs of this node's table. The body has not been read.
func (reply reply) refuse(refusal route.Refusal) {
	reply.server.metrics.Refused[refusal].Add(1)
	reply.writeRefused(421, refusal.String(), reply.server.options.Cluster.Table().MapHeaderValue())
	reply.server.metrics.CountResponse(route.Remote, 421)
}

// writeRefused sends a refusal to another node. epochs contains the epochs of the table that caused
// it.
func (reply reply) writeRefused(status int, reason string, epochs []byte) {
	reply.extraLines = append(reply.extraLines[:0], "Shardway-Refused: "...)
	reply.extraLines = append(reply.extraLines, reason...)
	reply.extraLines = append(reply.extraLines, "\r\n"+lineMap...)
	reply.extraLines = append(reply.extraLines, epochs...)
	reply.extraLines = append(reply.extraLines, "\r\n"+lineNode...)
	reply.extraLines = append(reply.extraLines, reply.server.options.Node...)
	reply.extraLines = append(reply.extraLines, "\r\n"...)
	reply.extraLines = reply.exchange.appendTries(reply.extraLines)
	reply.write(status, nil, reply.extraLines)
}

// refusedAborted is the reason in a 502 response of a stopping owner. It means that the owner
// cancelled the request, which may have run.
const refusedAborted = "cut"

// reportStopped sends the last response on a stream from another node. aborted is set if its
// request was cancelled and may have run; otherwise the request has not run. The response contains
// no epochs, because the other node must not wait for a newer table: its current table may already
// route to the next process of this node.
func (reply reply) reportStopped(aborted bool) {
	writer := reply.inbound.Writer()
	isWithinResponse := writer.Pending() > 0
	if writer.Err() != nil || isWithinResponse {
		return
	}
	reply.exchange.keepAlive = false
	zeroEpochs := route.AppendEpochs(nil, 0, 0)
	if aborted {
		reply.writeRefused(502, refusedAborted, zeroEpochs)
		return
	}
	reply.writeRefused(421, route.RefusedStopping.String(), zeroEpochs)
}

// forwardInterim forwards a 1xx response to clients that understand it. It forwards 100 only to
// clients that sent Expect.
func (reply reply) forwardInterim(res *h1.Response) error {
	isUnexpectedContinue := res.Status() == http.StatusContinue && !reply.req.ExpectsContinue()
	if reply.exchange.isResumption() || reply.exchange.accepted != nil || reply.req.Minor() == 0 || isUnexpectedContinue {
		return nil
	}
	reply.headerEdit = h1.Edit{Drop: h1.Shardway}
	writer := reply.inbound.WriteResponseHeader(res, &reply.headerEdit)
	return writer.Close(nil)
}

// headerContinue is set in a request if the ingress asks for early acceptance, and in the 100 response by
// which the owner accepts the request. Expect: 100-continue only lets a client hold the body back. The
// acceptance also reports that the owner has admitted the request and that its app accepts it. The value
// in the request shows whether the ingress holds the body back, and whether the client itself has sent
// Expect: 100-continue.
const headerContinue = "Shardway-Continue"

// sendAccepted sends the acceptance if the ingress asked for early acceptance (see headerContinue). The
// ingress then sends the body, if it holds the body back.
func (reply reply) sendAccepted() error {
	ingressAsks := reply.exchange.ingressHoldsBody || reply.exchange.ingressNeedsAcceptance
	if !ingressAsks || reply.exchange.acceptanceSent {
		return nil
	}
	reply.exchange.acceptanceSent = true
	return reply.writeContinue([]byte(headerContinue + ": 1\r\n"))
}

// requestBody asks the client or the ingress to send a body that it is holding back.
func (reply reply) requestBody() error {
	if err := reply.sendAccepted(); err != nil {
		return err
	}
	onlyIngressExpectsContinue := reply.exchange.ingressHoldsBody && !reply.exchange.clientExpectsContinue
	if !reply.req.ExpectsContinue() || onlyIngressExpectsContinue || reply.req.Minor() == 0 {
		return nil
	}
	bodyHasBegun := reply.req.Body.Available() > 0
	if bodyHasBegun {
		return nil
	}
	return reply.writeContinue(nil)
}

// writeContinue sends a 100 (Continue) response with additional header lines; nil means none.
func (reply reply) writeContinue(lines []byte) error {
	const keepAlive = true // the final response follows on the same connection
	return reply.inbound.WriteLocal(http.StatusContinue, lines, nil, keepAlive)
}
