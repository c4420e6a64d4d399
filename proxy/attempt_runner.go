package proxy

import (
	"sync/atomic"
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/route"
)

// attemptRunner runs one attempt: it sends the request over a connection, receives the response and
// forwards it to the client. If that fails, its retrier decides how the request continues.
type attemptRunner struct {
	*requestState
	reply         reply
	requestWriter requestWriter
	relay         *responseRelay
	retrier       *retrier
	wait          *requestWait
	slot          *slot
	admission     *admission
	disconnect    *disconnectWatch
	closing       *atomic.Bool                  // client.closing
	loop          *atomic.Pointer[eventLoop]    // client.loop
	leaseCheck    func() (time.Duration, error) // bound method remainingLease
}

// runAttempt sends the request once and forwards the response to the client.
func (runner *attemptRunner) runAttempt(attempt *attempt) decision {
	if err := runner.body.readAvailable(); err != nil {
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
	attempt.bodyOnDemand = attempt.route.Kind == route.Remote && !runner.body.isFullyBuffered()
	before := attempt.conn.Sent()
	writer := runner.requestWriter.writeHeader(attempt)
	if err := runner.writeRequest(attempt, writer); err != nil {
		if attempt.conn.Sent() == before || attempt.isUnprocessed() {
			return runner.retrier.handleUnsent(attempt, err)
		}
		runner.exchange.eventStream.countRequest() // SendChecked also waits for the response
		return runner.retrier.handleBroken(attempt, err)
	}
	if !runner.body.sending { // no buffer is needed while waiting for the response
		runner.conn.ReleaseEmptyBuffers()
		writer.ReleaseEmptyBuffer()
	}
	return decision{}
}

// awaitResponse waits for the response and forwards it to the client.
func (runner *attemptRunner) awaitResponse(attempt *attempt) decision {
	if err := runner.readResponseHeader(attempt, attempt.conn.Writer()); err != nil {
		if attempt.isUnprocessed() {
			return runner.retrier.handleUnsent(attempt, err)
		}
		runner.exchange.eventStream.countRequest()
		return runner.retrier.handleBroken(attempt, err)
	}
	return runner.processResponse(attempt)
}

// processResponse handles a response whose header has been read. It forwards the response to the
// client, or returns the decision how a request continues that was refused or must be retried.
func (runner *attemptRunner) processResponse(attempt *attempt) decision {
	res := &attempt.conn.Response
	if attempt.route.Kind == route.Local && res.Has(h1.FieldShardwayHold) && !runner.retrier.reportsNotAcquired(res) {
		runner.noteHold(res, attempt.epoch)
	}
	switch {
	case attempt.route.Kind == route.Remote && res.Status() == 421 && res.Has(h1.FieldShardwayRefused), runner.exchange.shedByOwner(attempt):
		return runner.retrier.handleRefused(attempt)
	case attempt.route.Kind == route.Remote && res.Status() == 502 && string(res.Known(h1.FieldShardwayRefused)) == refusedAborted:
		runner.exchange.eventStream.countRequest()
		return runner.retrier.handlePeerStopped(attempt)
	case attempt.route.Kind == route.Local && res.Status() == 421 && runner.retrier.reportsNotAcquired(res):
		return runner.retrier.handleNotAcquired(attempt)
	case runner.exchange.eventStream != nil && (brokeAtOwner(attempt) || drainedAtOwner(attempt)):
		return runner.retrier.handleUnansweredResume(attempt)
	case runner.exchange.eventStream != nil:
		if !runner.retrier.acceptsResumption(attempt) {
			return done
		}
	case res.IsSwitchingProtocols():
		runner.exchange.leaveQueue()
		if !runner.relay.relayUpgrade(attempt) {
			return runner.retrier.handleBroken(attempt, nil)
		}
		if runner.relay.hasWebSocket() {
			return decision{action: actionRelay}
		}
		return done
	}
	if runner.exchange.isResumption() {
		return runner.retrier.handleDeclined(attempt)
	}
	runner.exchange.leaveQueue()
	if began, err := runner.relay.relayResponse(attempt); !began {
		return runner.retrier.handleBroken(attempt, err)
	}
	if stream := runner.exchange.eventStream; stream != nil && stream.ended && !runner.closing.Load() {
		return decision{action: actionNextStream}
	}
	return done
}

// writeRequest sends the request header and the available part of the body. If the body is
// incomplete, another goroutine sends the rest as it arrives. If the owner requests the body on
// demand, writeRequest sends only the header.
func (runner *attemptRunner) writeRequest(attempt *attempt, writer *h1.Writer) error {
	if attempt.route.Kind == route.Local {
		writer.SetPrecondition(runner.leaseCheck)
	}
	if attempt.bodyOnDemand {
		err := writer.Flush()
		runner.disconnect.arm()
		return err
	}
	checksOnSend := runner.sendsChecked() && attempt.conn.CanBeCheckedOnSend()
	if checksOnSend {
		writer.Reserve(len(runner.body.buffered) + framingReserve)
	}
	if _, err := writer.Write(runner.body.buffered); err != nil {
		return err
	}
	if checksOnSend && runner.loop.Load() != nil {
		return attempt.conn.SendCheckedNonblock(runner.req.Body.Trailers())
	}
	if checksOnSend {
		runner.disconnect.arm()
		runner.conn.ReleaseEmptyBuffers()
		return attempt.conn.SendChecked(runner.req.Body.Trailers())
	}
	if runner.body.isFullyBuffered() {
		if err := writer.Close(runner.req.Body.Trailers()); err != nil {
			return err
		}
		if err := runner.reply.sendAccepted(); err != nil {
			return err
		}
		runner.disconnect.arm()
		return nil
	}
	if err := writer.Flush(); err != nil {
		return err
	}
	if err := runner.reply.sendAccepted(); err != nil {
		return err
	}
	runner.body.startSending(writer, 0)
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
		switch {
		case res.IsSwitchingProtocols() && !runner.req.RequestsUpgrade():
			return errNotSwitched
		case !res.IsInterim():
			return nil
		case res.Status() == 100 && attempt.route.Kind == route.Remote && res.Value(headerContinue) != nil:
			attempt.conn.Pool.Breaker.OnAccepted()
			attempt.conn.Pool.Backoff.OnAccepted(runner.exchange.limitShard())
			if attempt.bodyOnDemand {
				attempt.bodyOnDemand = false
				runner.disconnect.disarm()
				runner.body.startSending(writer, len(runner.body.buffered))
			}
		default:
			if runner.exchange.eventStream != nil {
				continue // the client already has its final response header
			}
			if err := runner.reply.forwardInterim(res); err != nil {
				return err
			}
		}
	}
}

// remainingLease returns the remaining time of the node's lease, or errNoLease if it has expired. It
// is called immediately before the first byte is sent to the app.
func (runner *attemptRunner) remainingLease() (time.Duration, error) {
	left := runner.server.options.Cluster.LeaseLeft()
	if left <= 0 {
		return 0, errNoLease
	}
	return left, nil
}
