package proxy

import (
	"errors"
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/route"
)

// A response of known length up to maxHeldResponse bytes is buffered until it is complete, for up
// to maxHoldTime. Most apps write header and body separately. If an app dies between the two
// writes, the request can then still be sent again. maxHeldResponse is the size of the read buffer.
const (
	maxHeldResponse = upstreamRead
	maxHoldTime     = 25 * time.Millisecond
)

// errCutFirst reports a run that was cancelled before the first byte of its response was sent.
var errCutFirst = errors.New("proxy: cut before the answer began")

// responseRelay sends responses of apps and owners to the client.
type responseRelay struct {
	reply
	slot      *slot
	leaves    func() (time.Duration, error) // answerLeaves, bound once
	webSocket *webSocketRelay               // a relay that has started and that continueServing must run; nil means none
}

// relayResponse sends a response to the client and ends the attempt. The header of the response has
// been read. If began is false, no byte of the response was sent, and the attempt has not ended.
// err is then the error in the response, if there is one. After the first byte, no other response
// is possible, so an error truncates the response.
//
// A response that has arrived completely is sent after its run has ended. The app has then finished
// the request, a cancellation cannot truncate the response, and a client that reads slowly does not
// delay a drain.
func (y *responseRelay) relayResponse(p *attempt) (began bool, err error) {
	res := &p.conn.res
	y.exchange.responsesBegun++
	if err := res.Body.WaitBuffered(maxHeldResponse, y.server.maxHoldTime); err != nil {
		return false, err
	}
	streams := isEvents(res)
	if streams {
		if !y.slot.mark(y.beginEvents(p)) {
			y.cancelEvents()
			return false, nil
		}
		if p.route.Kind == route.Local {
			p.conn.pool.detach(p.conn, nil)
		}
	}
	p.conn.pool.breaker.OnAccepted()
	before, keep := y.conn.Sent(), y.exchange.keep
	w, further := y.conn.Writer(), y.exchange.isStreamResumption()
	if further {
		y.server.metrics.resumptions[resumeDone].Add(1)
	} else {
		w = y.conn.WriteResponseHeader(res, y.head(p.route, res))
		if y.early(res) {
			y.body.respondsEarly(p, res.Status() >= 300)
		}
	}
	var rerr, werr error
	if streams {
		y.learn(p, further, true) // before the stream ends, because other requests for the path must not wait for that
		rerr, werr = y.slot.events.copy(w, &res.Body)
	} else {
		w.SetPrecondition(y.leaves)
		if res.Body.IsBuffered() {
			w.Reserve(int(res.Body.Remaining()))
		}
		open := p.conn.pool.node != "" && !further && res.Body.Remaining() < 0
		if open {
			y.slowResponse.Store(y.server.sizes.Key(&y.req))
		}
		_, rerr, werr = w.Copy(&res.Body)
		w.SetPrecondition(nil)
		tookLong := open && y.slowResponse.Swap(0) == 0
		y.learn(p, further, tookLong || p.conn.isLarge(res.Body.Received()))
	}
	failed := rerr != nil || werr != nil
	if failed && !further && y.conn.Sent() == before && !y.slot.mark(slotResponseBegun) {
		w.Discard() // no byte was sent to the client
		y.cancelEvents()
		y.exchange.keep = keep
		return false, rerr
	}
	if !further {
		y.answered(res)
	}
	if failed {
		if y.continuesStream(p, rerr, werr) {
			return true, nil
		}
		w.Abort()
		y.breakOff(p, rerr)
		return true, nil
	}
	y.finish(p, w)
	return true, nil
}

// learn records whether a response of another node was large, for later requests to the same path.
// It ignores the response to a request to resume a stream.
func (y *responseRelay) learn(p *attempt, further, large bool) {
	if p.conn.pool.node != "" && !further {
		y.server.sizes.Record(y.server.sizes.Key(&y.req), large)
	}
}

// finish ends an attempt whose response has arrived completely.
func (y *responseRelay) finish(p *attempt, w *h1.Writer) {
	res := &p.conn.res
	sent := y.body.ended() && !y.body.broken && !p.conn.WriteStopped()
	if !sent || !res.KeepAlive() {
		_ = p.conn.Close() // before release, so that the app cannot still be working on the request
	}
	why := y.slot.finish()
	p.release()
	last := p.conn.pool.clock.Now()
	p.conn.pool.backoff.OnAccepted(y.exchange.limitShard())
	if y.settings.MaxShardInflight > 0 {
		p.conn.pool.responseCompleted(p.conn)
	}
	// The app has finished the request. Sending the rest to a slow client may block.
	switch err := y.close(w, res.Body.Trailers()); {
	case errors.Is(err, h1.ErrUnsent):
		y.exchange.unsent = true
	case err != nil:
		y.exchange.aborted = true
	}
	y.body.stop()
	p.disconnect.disarm()
	y.trailersDropped(&res.Body, "response")
	if why == causeNone && sent && res.KeepAlive() {
		if p.bodyOnDemand {
			p.conn.Writer().Discard() // the owner also expects that the body will not follow
		}
		p.conn.pool.putUsedAt(p.conn, last)
	} else {
		p.conn.pool.discard(p.conn)
	}
}

// close ends the response. For the last response of a connection, it also closes the sending side
// in the same step.
func (y *responseRelay) close(w *h1.Writer, trailers []byte) error {
	if !y.exchange.keep && !y.body.running && y.last() {
		return w.CloseLast(trailers)
	}
	return w.Close(trailers)
}

// answerLeaves marks the run as answered. It is called right before the first byte is sent to the
// client. It returns an error if the run was cancelled.
func (y *responseRelay) answerLeaves() (time.Duration, error) {
	if !y.slot.mark(slotResponseBegun) {
		return 0, errCutFirst
	}
	return 0, nil
}

// answered records that a response of an app is sent to the client.
func (r reply) answered(res *h1.Response) {
	r.exchange.account.recordResponse(res.Status(), res, r.exchange.route)
	r.server.metrics.countResponse(r.exchange.route, res.Status())
}

// breakOff ends an attempt whose response was truncated.
func (r reply) breakOff(p *attempt, rerr error) {
	run := p.slot.load().number
	switch why := p.abort(); {
	case why != causeNone:
	case errors.Is(rerr, errStreamEnded) && p.slot.events.isResumable(run): // another owner resumes the stream, so it does not count as aborted
	case errors.Is(rerr, errStreamEnded):
		r.server.metrics.countAborted(causeShardMoved.String(), 1)
	case rerr != nil:
		r.server.metrics.truncatedResponses.Add(1)
	}
	r.exchange.aborted, r.exchange.account.code = true, accessAborted
}
