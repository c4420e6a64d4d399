package proxy

import (
	"errors"
	"os"
	"strconv"

	"shardway/internal/problem"
	"shardway/proxy/backoff"
	"shardway/proxy/connpool"
	"shardway/proxy/h1"
	"shardway/proxy/route"
)

// detailMayHaveRun is part of each error response to a request that an app may have executed.
const detailMayHaveRun = "the connection broke after the request was sent: it may have run"

// maxTries limits how often a request that may have run is sent, in total over all nodes.
// maxReusedTries limits how many of these attempts use a connection that has carried other
// requests. When a node dies, all its connections break, one after the other. Therefore the last
// attempt uses a new connection.
const (
	maxTries       = 3
	maxReusedTries = 2
)

// errNotSwitched reports a 101 response to a request without Upgrade.
var errNotSwitched = errors.New("proxy: 101 without being asked")

// attempt is one try to send a request over one connection and to receive the response. The run of
// the request has begun in the slot of the client's connection (slot.go).
//
// The goroutine that ends an attempt must call release once, after the app has finished the request
// or its connection is closed. Then it must return the connection to its pool or discard it.
type attempt struct {
	conn  *connpool.Conn
	table *route.Table
	route *route.Route
	attemptEpoch
	release         func()
	responsesBefore int  // number of responses to earlier attempts of the request that had begun
	bodyOnDemand    bool // the owner has not requested the body yet; it does so after it has admitted the request

	// The following fields point into the state of the client's connection.
	slot       *slot
	body       *requestBody
	disconnect *disconnectWatch
}

// attemptEpoch identifies the state of the cluster in which a request was sent.
type attemptEpoch struct {
	epoch      uint64 // ownership epoch of the shard; zero means unknown
	generation uint64 // generation of the routing table, for a local attempt; zero means unknown
}

// abort ends an attempt by closing its connection. It also stops sending the client's body. If the
// attempt was cancelled, abort returns the cause.
func (attempt *attempt) abort() cause {
	cancelCause := attempt.slot.finish()
	_ = attempt.conn.Close() // before release, so that the app cannot still be working on the request
	attempt.release()
	attempt.body.stop()
	attempt.disconnect.disarm()
	attempt.conn.Pool.Discard(attempt.conn)
	return cancelCause
}

// cancelUnsent ends an attempt before anything was sent, and returns its connection to the pool.
func (attempt *attempt) cancelUnsent() {
	attempt.slot.giveBack(attempt.conn)
	attempt.release()
}

// admit requests admission under the lease of the shard from the node. A request without a shard
// only requires that the node holds a lease.
func (c *client) admit() (epoch uint64, release func(), err error) {
	if !c.exchange.Keyless {
		return c.server.options.Cluster.Admit(c.exchange.shard)
	}
	if c.server.options.Cluster.LeaseLeft() <= 0 {
		return 0, nil, route.RefusedNoLease
	}
	return 0, nothing, nil
}

func nothing() {}

// isUnread reports whether the request was sent on a multiplexed stream that failed before the peer
// read any byte of it.
func (attempt *attempt) isUnread() bool {
	return attempt.conn.Mux != nil && attempt.conn.Mux.Unprocessed()
}

// handleUnsent ends an attempt whose request was not sent, or was sent and not read by the peer.
// Such a request can be sent again with any method.
func (c *client) handleUnsent(attempt *attempt, err error) decision {
	c.disconnect.disarm()
	c.exchange.noteNotDelivered()
	if errors.Is(err, errNoLease) {
		attempt.conn.Writer().Discard()
		attempt.cancelUnsent()
		return decision{action: actionWait, reason: route.ReasonNoLease, refusal: route.RefusedNoLease}
	}
	cancelCause := attempt.abort()
	c.exchange.noStreams = c.exchange.noStreams || attempt.conn.Mux != nil
	if !errors.Is(err, h1.ErrUnsolicitedData) { // otherwise only a pooled connection had ended earlier, which is not a retry
		c.server.metrics.retries[retryUnsent].Add(1)
	}
	switch {
	case c.closing.Load():
		return done
	case c.replaced(cancelCause):
		return c.yieldToNewer()
	case cancelCause != causeNone || attempt.conn.Reused || attempt.conn.Mux != nil:
		return decision{action: actionRetry}
	}
	result := decision{action: actionWait, reason: route.ReasonUnreachable, backoff: true, detail: c.server.unreachableReason(err)}
	if result.code = problem.PeerUnreachable; attempt.route.Kind == route.Local {
		result.code, result.refusal = problem.UpstreamRefused, route.RefusedNoApp
	}
	return result
}

// writeRequest sends the request header and the available part of the body. If the body is
// incomplete, another goroutine sends the rest as it arrives. If the owner requests the body on
// demand, writeRequest sends only the header.
func (c *client) writeRequest(attempt *attempt, writer *h1.Writer) error {
	if attempt.route.Kind == route.Local {
		writer.SetPrecondition(c.leaseCheck)
	}
	if attempt.bodyOnDemand {
		err := writer.Flush()
		c.disconnect.arm()
		return err
	}
	asks := c.sendsChecked() && attempt.conn.CanBeCheckedOnSend()
	if asks {
		writer.Reserve(len(c.body.buffered) + askFrame)
	}
	if _, err := writer.Write(c.body.buffered); err != nil {
		return err
	}
	if asks && c.loop.Load() != nil {
		return attempt.conn.SendCheckedNonblock(c.req.Body.Trailers())
	}
	if asks {
		c.disconnect.arm()
		c.conn.ReleaseEmptyBuffers()
		return attempt.conn.SendChecked(c.req.Body.Trailers())
	}
	if c.body.isFullyBuffered() {
		if err := writer.Close(c.req.Body.Trailers()); err != nil {
			return err
		}
		if err := c.reply.sendAccepted(); err != nil {
			return err
		}
		c.disconnect.arm()
		return nil
	}
	if err := writer.Flush(); err != nil {
		return err
	}
	if err := c.reply.sendAccepted(); err != nil {
		return err
	}
	c.body.start(writer, 0)
	return nil
}

// readResponseHeader reads response headers up to the final one. It forwards interim responses to
// the client.
func (c *client) readResponseHeader(attempt *attempt, writer *h1.Writer) error {
	res := &attempt.conn.Response
	for {
		if err := attempt.conn.ReadResponse(res, c.req.Method()); err != nil {
			return err
		}
		attempt.conn.Pool.MarkProven(attempt.conn)
		if attempt.route.Kind == route.Local {
			c.server.appSilence.RecordResponse(c.server.clock.Now())
		}
		c.reply.repaired(res)
		switch {
		case res.IsSwitchingProtocols() && !c.req.RequestsUpgrade():
			return errNotSwitched
		case !res.IsInterim():
			return nil
		case res.Status() == 100 && attempt.route.Kind == route.Remote && res.Value(headerContinue) != nil:
			attempt.conn.Pool.Breaker.OnAccepted()
			attempt.conn.Pool.Backoff.OnAccepted(c.exchange.limitShard())
			if attempt.bodyOnDemand {
				attempt.bodyOnDemand = false
				c.disconnect.disarm()
				c.body.start(writer, len(c.body.buffered))
			}
		default:
			if c.exchange.resumed != nil {
				continue // the client already has its final response header
			}
			if err := c.reply.forwardInterim(res); err != nil {
				return err
			}
		}
	}
}

// handleBroken ends an attempt that failed after a part of the request was sent and before a
// response arrived. It decides whether the request may be sent again.
func (c *client) handleBroken(attempt *attempt, err error) decision {
	cancelCause := attempt.abort()
	c.exchange.noStreams = c.exchange.noStreams || attempt.conn.Mux != nil
	if cancelCause == causeNone && errors.Is(err, errPathDead) {
		cancelCause = causePathDead
		c.server.metrics.countAborted(cancelCause.String(), 1)
	}
	code := brokenCode(attempt.route.Kind)
	// Set runAborted before any decision, because this node may stop before the client has a
	// response.
	c.exchange.runAborted = c.exchange.runAborted || c.exchange.safety != safeMethod || c.closing.Load()
	var bad *h1.Error
	switch {
	case c.closing.Load():
		return done
	case c.body.clientErr != nil:
		return c.reply.badBody(c.body.clientErr)
	case c.replaced(cancelCause):
		return c.yieldToNewer()
	case cancelCause == causeDrainTimeout && c.exchange.resumed != nil:
		return c.retryAtNextOwner(attempt)
	case cancelCause == causeDrainTimeout && c.mayAskNextOwner(attempt):
		return c.askNextOwner()
	case cancelCause == causeDrainTimeout:
		return fail(problem.ShardMoved, "the request was aborted because its shard moved away while it was running: it may have run")
	case cancelCause == causeLeaving:
		return c.closeLongPoll()
	case cancelCause == causeTimeout:
		return fail(problem.UpstreamTimeout, "the app did not respond in time: the request may have run")
	case errors.As(err, &bad):
		return fail(code, "the response is malformed: "+bad.Reason())
	case errors.Is(err, errNotSwitched):
		return fail(code, "the response switches protocols without being asked to")
	case errors.Is(err, os.ErrDeadlineExceeded) && cancelCause == causeNone:
		return fail(code, "the connection stalled while the request was sent or while the response head was read: the request may have run")
	}
	return c.decideRetry(attempt, code, cancelCause)
}

// brokenCode returns the problem code for a connection that broke on the given route.
func brokenCode(kind route.Kind) problem.Code {
	if kind == route.Remote {
		return problem.PeerUnreachable
	}
	return problem.UpstreamBroken
}

// decideRetry decides whether a request that may have run is sent again (guarantee G7).
func (c *client) decideRetry(attempt *attempt, code problem.Code, cancelCause cause) decision {
	c.exchange.tries++
	if attempt.conn.Reused {
		c.exchange.reusedTries++
	}
	// A response header proves that the request has run. In that case only a safe request is
	// repeated, and only once.
	again := c.exchange.safety == safeMethod && c.exchange.responsesBegun < 2
	if c.exchange.safety == idempotentMethod {
		again = attempt.epoch != 0 && c.exchange.responsesBegun == 0
		c.exchange.ran, c.exchange.ranEpoch = true, attempt.epoch
	}
	if detail := c.retryDenied(attempt, cancelCause, again); detail != "" {
		if cancelCause == causeStopping {
			return fail(problem.ShardMoved, "the request was aborted because its node stops: it may have run")
		}
		return fail(code, detail)
	}
	c.server.metrics.retries[retryBroken].Add(1)
	if c.exchange.tries == 1 {
		return decision{action: actionRetry}
	}
	return decision{action: actionWait, reason: route.ReasonUnreachable, backoff: true, code: code, detail: detailMayHaveRun}
}

// retryDenied returns the reason why a request that may have run is not sent again, or "" if it is
// sent again. again means that the method of the request permits a retry.
func (c *client) retryDenied(attempt *attempt, cancelCause cause, again bool) (detail string) {
	switch poisonous := c.recordCrash(attempt, cancelCause); {
	case !again || !c.body.replayable():
		return detailMayHaveRun
	case poisonous:
		return detailMayHaveRun + ", and another process that it was sent to before has broken, too: it is sent to no third one"
	case c.exchange.tries >= maxTries:
		return detailMayHaveRun + ", and was sent " + strconv.Itoa(maxTries) + " times"
	case !c.retryBudgetAllows(attempt, cancelCause):
		return detailMayHaveRun + ", and a fifth of all requests is being sent again already"
	}
	return ""
}

// retryBudgetAllows reports whether the retry budget permits another attempt. Two kinds of failures
// do not use the budget, because they are no sign of a problem in the app. First, a multiplexed
// session that breaks affects many requests, which separate connections would have carried. Second,
// a planned stop of a node is not a failure.
func (c *client) retryBudgetAllows(attempt *attempt, cancelCause cause) bool {
	if cancelCause == causeStopping {
		return true
	}
	if c.exchange.tries == 1 && attempt.conn.Mux != nil && attempt.conn.Mux.SessionDraining() && (cancelCause == causeNone || cancelCause == causePathDead) {
		return true
	}
	return c.server.budget.Spend()
}

// handlePeerStopped ends an attempt that the owner has cancelled because its process stops. The
// response of the owner means that the request may have run, and that it did not cause the stop.
func (c *client) handlePeerStopped(attempt *attempt) decision {
	attempt.abort()
	attempt.conn.Pool.CloseIdleTo(attempt.conn.Boot)
	switch {
	case c.closing.Load():
		return done
	case c.body.clientErr != nil:
		return c.reply.badBody(c.body.clientErr)
	}
	return c.decideRetry(attempt, problem.PeerUnreachable, causeShutdown)
}

// headerAcquire is set by the app in a 421 response. It means that the app has not acquired the
// shard and has not run the request.
const headerAcquire = "Shardway-Acquire"

// reportsNotAcquired reports whether the response means that the app has not acquired the shard.
func (c *client) reportsNotAcquired(res *h1.Response) bool {
	return c.server.options.NotAcquired != nil && !c.exchange.Keyless && string(res.Value(headerAcquire)) == "1"
}

// handleNotAcquired ends an attempt whose shard the app has not acquired, and reports that to the
// node. The request has not run. It is sent again after the app has acquired the shard. If the app
// sends the same response maxTries times, the client receives an error response.
func (c *client) handleNotAcquired(attempt *attempt) decision {
	c.exchange.noteNotDelivered()
	attempt.abort()
	c.exchange.notAcquired++
	switch {
	case c.closing.Load():
		return done
	case c.body.clientErr != nil:
		return c.reply.badBody(c.body.clientErr)
	case c.exchange.notAcquired >= maxTries:
		return fail(problem.UpstreamBroken, "the app asks for the shard of the request again and again (Shardway-Acquire), though its acquire hook succeeds: let it note what it has acquired; the request has not run")
	}
	// If the app has acquired the shard since the request was sent, its response is outdated.
	if !c.server.options.Cluster.Table().IsNewTo(c.exchange.shard, attempt.generation) {
		c.server.options.NotAcquired(c.exchange.shard, attempt.epoch)
	}
	if !c.body.replayable() {
		return fail(problem.UpstreamBroken, problem.UnheldInPart)
	}
	return decision{action: actionWait, reason: route.ReasonAcquiring, refusal: route.RefusedHeld, notAcquired: attempt.attemptEpoch}
}

// handleRefused ends an attempt that the owner has refused. No byte of the request has reached an
// app.
func (c *client) handleRefused(attempt *attempt) decision {
	c.exchange.noteNotDelivered()
	res := &attempt.conn.Response
	refusal, ok := route.ParseRefusal(res.Known(h1.FieldShardwayRefused))
	sheds := c.exchange.shedByOwner(attempt)
	switch {
	case sheds:
		refusal = route.RefusedBusy
	case !ok:
		refusal = route.RefusedHeld // the refusal has a reason of a newer version
	}
	committed, proposed, _ := route.ParseEpochs(res.Known(h1.FieldShardwayMap))
	if tries := triesOf(&res.Header); tries > c.exchange.tries {
		// The request has run at the owner and was cancelled because its shard moves; see
		// askNextOwner.
		c.notePoll()
		c.exchange.tries = tries
	}
	c.body.stop()
	c.disconnect.disarm()
	whole := res.Body.Drain(drainLimit) == nil && res.KeepAlive() && !c.body.broken
	if !c.body.isFullyBuffered() {
		attempt.conn.Writer().Discard() // the owner also expects that the body will not follow
	}
	if c.slot.finish() == causeNone && whole {
		attempt.conn.Pool.Put(attempt.conn)
	} else {
		attempt.conn.Pool.Discard(attempt.conn)
	}
	attempt.release()
	c.server.metrics.refusedByOwner[refusal].Add(1)
	c.server.metrics.retries[retryRefused].Add(1)
	if refusal == route.RefusedStopping {
		attempt.conn.Pool.CloseIdleTo(attempt.conn.Boot)
	}
	switch {
	case c.closing.Load():
		return done
	case c.body.broken:
		return fail(problem.QueueTimeout, "the shard's owner refused the request after part of its body had been read")
	case c.exchange.tries >= maxTries:
		return fail(problem.PeerUnreachable, detailMayHaveRun)
	case refusal == route.RefusedStopping && attempt.conn.Reused:
		return decision{action: actionRetry} // a previous process of the node may have sent the refusal
	}
	result := decision{
		action: actionWait, reason: route.ReasonRefused, refusal: refusal, backoff: true,
		committed: committed, proposed: proposed,
	}
	if refusal == route.RefusedNoApp || refusal == route.RefusedBusy {
		result.reason = route.ReasonUnreachable
	}
	pool := attempt.conn.Pool
	if refusal == route.RefusedNoApp {
		pool.Breaker.Open(backoff.ErrNoApp)
		result.condition = &pool.Breaker
		return result
	}
	pool.Breaker.OnAccepted()
	switch {
	case refusal != route.RefusedBusy:
	case c.exchange.isResumption():
		result.condition, result.backoff = pool.UpgradeBackoff.OnRefused(0, false), false
	default:
		result.condition, result.backoff = pool.Backoff.OnRefused(c.exchange.limitShard(), sheds), false
		if sheds {
			result.code, result.detail = problem.ShardBusy, detailShardInflight
		}
	}
	return result
}

// errNoLease reports that the lease has ended between the admission of a request and the first
// byte.
var errNoLease = errors.New("proxy: no lease")
