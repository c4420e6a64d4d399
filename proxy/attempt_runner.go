package proxy

import (
	"net/http"
	"sync/atomic"
	"time"

	"shardway/proxy/connlife"
	"shardway/proxy/eventloop"
	"shardway/proxy/h1"
	"shardway/proxy/inflight"
	"shardway/proxy/route"
)

// attemptRunner runs one attempt: it sends the request over a connection, receives the response and
// forwards it to the client. If that fails, its retrier decides how the request continues.
type attemptRunner struct {
	*requestState

	// Other steps of the request.

	reply         reply
	requestWriter requestWriter
	relay         *responseRelay
	retrier       *retrier
	wait          *requestWait

	// State of the client's connection.

	slot       *inflight.Slot
	admission  *admission
	disconnect *connlife.DisconnectWatch
	closing    *atomic.Bool // client.closing
	loopClient *eventloop.Client
	leaseCheck func() (time.Duration, error) // bound method remainingLease
}

// runAttempt sends the request once and forwards the response to the client.
func (runner *attemptRunner) runAttempt(attempt *attempt) decision {
	if err := runner.body.ReadAvailable(); err != nil {
		runner.exchange.lastRoute = attempt.route.Kind
		attempt.cancelUnsent()
		return runner.reply.rejectBody(err)
	}
	if attempt.conn.InProcess {
		runner.exchange.lastRoute = attempt.route.Kind
		return runner.runInHandler(attempt)
	}
	if result := runner.sendRequest(attempt); result.action != 0 {
		return result
	}
	return runner.awaitResponse(attempt)
}

// sendRequest sends the request. The zero decision means that it was sent. After an error, the
// attempt has ended, and the decision determines how the request continues.
func (runner *attemptRunner) sendRequest(attempt *attempt) decision {
	runner.exchange.lastRoute = attempt.route.Kind
	attempt.bodyHeldBack = attempt.route.Kind == route.Remote && !runner.body.IsFullyBuffered()
	before := attempt.conn.Sent()
	writer := runner.requestWriter.writeHeader(attempt)
	if err := runner.writeRequest(attempt, writer); err != nil {
		if attempt.conn.Sent() == before || attempt.isUnprocessed() {
			return runner.retrier.decideAfterSendFailure(attempt, err)
		}
		runner.exchange.eventStream.CountRequest() // SendChecked also waits for the response
		return runner.retrier.decideAfterBreak(attempt, err)
	}
	if !runner.body.IsSending() { // no buffer is needed while waiting for the response
		runner.inbound.ReleaseEmptyBuffers()
		writer.ReleaseEmptyBuffer()
	}
	return decision{}
}

// awaitResponse waits for the response and forwards it to the client.
func (runner *attemptRunner) awaitResponse(attempt *attempt) decision {
	if err := runner.readResponseHeader(attempt, attempt.conn.Writer()); err != nil {
		if attempt.isUnprocessed() {
			return runner.retrier.decideAfterSendFailure(attempt, err)
		}
		runner.exchange.eventStream.CountRequest()
		return runner.retrier.decideAfterBreak(attempt, err)
	}
	return runner.processResponse(attempt)
}

// processResponse handles a response whose header has been read. It forwards the response to the
// client. If the response requires the request to be sent again, it returns the decision on how to
// continue.
func (runner *attemptRunner) processResponse(attempt *attempt) decision {
	res := &attempt.conn.Response
	isLocal := attempt.route.Kind == route.Local
	if isLocal && res.Has(h1.FieldShardwayHold) && !runner.retrier.reportsNotAcquired(res) { // an app that lacks the shard has no state to hold
		runner.reportHold(res, attempt.epoch)
	}
	isBodyRead := !runner.body.IsSending() || runner.body.IsSendingEnd()
	if isLocal && isBodyRead { // before the client can send the next request
		runner.chargeBody(0)
	}
	runner.applyResponseRules(attempt.route.Kind, res)
	switch {
	case isRefusal(attempt) || runner.exchange.wasShedByOwner(attempt):
		return runner.retrier.decideAfterRefusal(attempt)
	case ownerHasStopped(attempt):
		runner.exchange.eventStream.CountRequest()
		return runner.retrier.decideAfterPeerStop(attempt)
	case isLocal && res.Status() == http.StatusMisdirectedRequest && runner.retrier.reportsNotAcquired(res):
		return runner.retrier.decideAfterNotAcquired(attempt)
	case runner.namesKey(res):
		return runner.retrier.decideAfterNamedKey(attempt)
	}
	if runner.exchange.eventStream != nil {
		return runner.processResumedStream(attempt)
	}
	if res.IsSwitchingProtocols() {
		return runner.processUpgrade(attempt)
	}
	if runner.exchange.isResumption() {
		return runner.retrier.decideAfterDecline(attempt)
	}
	if runner.exchange.accepted != nil {
		return runner.declineAccepted(attempt)
	}
	return runner.forwardResponse(attempt)
}

// processResumedStream handles the response to a resume request for an event stream.
func (runner *attemptRunner) processResumedStream(attempt *attempt) decision {
	if brokeAtOwner(attempt) || drainedAtOwner(attempt) { // the response comes from the owner, not from its app
		return runner.retrier.decideAfterUnansweredResumption(attempt)
	}
	if !runner.retrier.acceptsResumption(attempt) {
		return done
	}
	return runner.forwardResponse(attempt)
}

// processUpgrade handles a 101 response, and runs the tunnel or starts the relay of a WebSocket.
func (runner *attemptRunner) processUpgrade(attempt *attempt) decision {
	runner.exchange.finishQueueing()
	runner.endTotalTimeout()
	if !runner.relay.relayUpgrade(attempt) {
		return runner.retrier.decideAfterBreak(attempt, nil)
	}
	if runner.relay.hasWebSocket() {
		return decision{action: actionRelay}
	}
	return done
}

// forwardResponse forwards the response to the client. If an event stream has ended early and can be
// resumed, the decision is a resumption.
func (runner *attemptRunner) forwardResponse(attempt *attempt) decision {
	runner.exchange.finishQueueing()
	if began, err := runner.relay.relayResponse(attempt); !began {
		return runner.retrier.decideAfterBreak(attempt, err)
	}
	stream := runner.exchange.eventStream
	mustResume := stream != nil && stream.Ended && !runner.closing.Load()
	if mustResume {
		return decision{action: actionNextStream}
	}
	return done
}

// isRefusal reports whether the owner has refused the request.
func isRefusal(attempt *attempt) bool {
	res := &attempt.conn.Response
	return attempt.route.Kind == route.Remote && res.Status() == http.StatusMisdirectedRequest && res.Has(h1.FieldShardwayRefused)
}

// ownerHasStopped reports whether the owner has cancelled the request because its process stops.
func ownerHasStopped(attempt *attempt) bool {
	res := &attempt.conn.Response
	return attempt.route.Kind == route.Remote && res.Status() == http.StatusBadGateway && string(res.Known(h1.FieldShardwayRefused)) == refusedAborted
}

// writeRequest sends the request header and the available part of the body. If the body is
// incomplete, another goroutine sends the rest as it arrives. If the owner requests the body on
// demand, writeRequest sends only the header.
func (runner *attemptRunner) writeRequest(attempt *attempt, writer *h1.Writer) error {
	if attempt.route.Kind == route.Local {
		writer.SetPrecondition(runner.leaseCheck)
	}
	if attempt.bodyHeldBack {
		err := writer.Flush()
		runner.disconnect.Arm()
		return err
	}
	if runner.sendsChecked() && attempt.conn.CanBeCheckedOnSend() {
		return runner.sendChecked(attempt, writer)
	}
	if _, err := writer.Write(runner.body.Buffered); err != nil {
		return err
	}
	if runner.body.IsFullyBuffered() {
		return runner.sendComplete(writer)
	}
	if err := writer.Flush(); err != nil {
		return err
	}
	if err := runner.reply.sendAccepted(); err != nil {
		return err
	}
	runner.body.StartSending(writer, 0)
	return nil
}

// sendChecked sends a small complete request, and checks the connection right before the first byte.
// In an event loop, it does not block. Otherwise it also waits for the response.
func (runner *attemptRunner) sendChecked(attempt *attempt, writer *h1.Writer) error {
	writer.Reserve(len(runner.body.Buffered) + framingReserve)
	if _, err := writer.Write(runner.body.Buffered); err != nil {
		return err
	}
	trailers := runner.req.Body.Trailers()
	if runner.loopClient.Loop() != nil {
		return attempt.conn.SendCheckedNonblock(trailers)
	}
	runner.disconnect.Arm()
	runner.inbound.ReleaseEmptyBuffers()
	return attempt.conn.SendChecked(trailers)
}

// sendComplete sends the end of a request whose body is buffered completely.
func (runner *attemptRunner) sendComplete(writer *h1.Writer) error {
	if err := writer.Close(runner.req.Body.Trailers()); err != nil {
		return err
	}
	if err := runner.reply.sendAccepted(); err != nil {
		return err
	}
	runner.disconnect.Arm()
	return nil
}

// readResponseHeader reads response headers up to the final one. It forwards interim responses to
// the client.
func (runner *attemptRunner) readResponseHeader(attempt *attempt, writer *h1.Writer) error {
	res := &attempt.conn.Response
	for {
		if err := attempt.conn.ReadResponse(res, runner.req.Method()); err != nil {
			return err
		}
		attempt.conn.Pool.MarkProven(attempt.conn)
		if attempt.route.Kind == route.Local {
			runner.server.appSilence.RecordResponse(runner.server.clock.Now())
		}
		runner.reply.logRepairs(res)
		if res.IsSwitchingProtocols() && !runner.req.RequestsUpgrade() {
			return errNotSwitched
		}
		if !res.IsInterim() {
			return nil
		}
		if err := runner.processInterim(attempt, writer); err != nil {
			return err
		}
	}
}

// processInterim processes a 1xx response. A 100 with headerContinue means that the owner has admitted
// the request and needs its body. All other interim responses are for the client.
func (runner *attemptRunner) processInterim(attempt *attempt, writer *h1.Writer) error {
	res := &attempt.conn.Response
	acceptedByOwner := res.Status() == http.StatusContinue && attempt.route.Kind == route.Remote && res.Value(headerContinue) != nil
	if acceptedByOwner {
		runner.processAcceptance(attempt, writer)
		return nil
	}
	if runner.exchange.eventStream != nil {
		return nil // the client already has its final response header
	}
	return runner.reply.forwardInterim(res)
}

// processAcceptance records that the owner has admitted the request, and sends the body if the owner
// has waited for it.
func (runner *attemptRunner) processAcceptance(attempt *attempt, writer *h1.Writer) {
	attempt.conn.Pool.Breaker.OnAccepted()
	attempt.conn.Pool.Backoff.OnAccepted(runner.exchange.limitShard())
	if attempt.bodyHeldBack {
		attempt.bodyHeldBack = false
		runner.disconnect.Disarm()
		runner.body.StartSending(writer, len(runner.body.Buffered))
	}
}

// remainingLease returns the remaining time of the node's lease, or errNoLease if it has expired. The
// Writer calls it immediately before it sends the first byte to the app, also in an event loop.
func (runner *attemptRunner) remainingLease() (time.Duration, error) {
	left := runner.server.options.Cluster.LeaseLeft()
	if left <= 0 {
		return 0, errNoLease
	}
	return left, nil
}
