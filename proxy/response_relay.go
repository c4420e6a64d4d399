package proxy

import (
	"errors"
	"time"

	"shardway/proxy/h1"
)

// An answer of known length, up to heldAnswer, is held until it is whole, waitTime at
// most: most apps write head and body apart, and what dies between the two then
// costs no client its answer. It is the size of a link's read buffer.
const (
	heldAnswer = upstreamRead
	heldFor    = 25 * time.Millisecond
)

// errCutFirst reports a run that was cut before the first byte of its answer left.
var errCutFirst = errors.New("proxy: cut before the answer began")

// responseRelay passes answers of apps and owners on to who asked.
type responseRelay struct {
	reply
	slot      *slot
	leaves    func() (time.Duration, error) // answerLeaves, bound once
	webSocket *webSocketRelay               // that has begun, and that nobody carries yet; nil: there is none
}

// relayResponse passes the answer that has begun to come in on, and ends the trip. Once its first
// byte leaves there is no other answer: what breaks off then is cut. Before that, began
// is false, and the trip goes on; err is what was wrong with the answer, if anything was.
// An answer that is here as a whole leaves when its run has ended already: the app is
// done with the request, so a cut takes nothing from the client, and a client that reads
// slowly holds up no drain.
func (y *responseRelay) relayResponse(p *attempt) (began bool, err error) {
	res := &p.conn.res
	y.x.responsesBegun++
	if err := res.Body.Gather(heldAnswer, heldFor); err != nil {
		return false, err
	}
	streams := isEvents(res)
	if streams {
		if !y.slot.mark(y.beginEvents(p)) {
			y.cancelEvents()
			return false, nil
		}
		if p.route.Kind == Local {
			p.conn.pool.detach(p.conn, nil)
		}
	}
	p.conn.pool.breaker.onAccepted()
	before, keep := y.conn.Sent(), y.x.keep
	w, further := y.conn.Writer(), y.x.isStreamResumption()
	if further {
		y.s.metrics.resumptions[resumeDone].Add(1)
	} else {
		w = y.conn.WriteResponseHead(res, y.head(p.route, res))
		if y.early(res) {
			y.body.respondsEarly(p, res.Status() >= 300)
		}
	}
	var rerr, werr error
	if streams {
		y.learn(p, further, true) // while it goes on others are asked for
		rerr, werr = y.slot.events.copy(w, &res.Body)
	} else {
		w.SetPrecondition(y.leaves)
		if res.Body.Whole() {
			w.Reserve(int(res.Body.Remaining()))
		}
		open := p.conn.pool.node != "" && !further && res.Body.Remaining() < 0
		if open {
			y.slowResponse.Store(y.s.sizes.key(&y.req))
		}
		_, rerr, werr = w.Copy(&res.Body)
		w.SetPrecondition(nil)
		tookLong := open && y.slowResponse.Swap(0) == 0
		y.learn(p, further, tookLong || p.conn.isLarge(res.Body.Received()))
	}
	failed := rerr != nil || werr != nil
	if failed && !further && y.conn.Sent() == before && !y.slot.mark(slotAnswered) {
		w.Discard() // nobody has seen anything of it
		y.cancelEvents()
		y.x.keep = keep
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

// learn notes what an answer of another node tells of the next one to such a request. A
// further leg tells nothing.
func (y *responseRelay) learn(p *attempt, further, large bool) {
	if p.conn.pool.node != "" && !further {
		y.s.sizes.note(y.s.sizes.key(&y.req), large)
	}
}

// finish ends a trip all of whose answer is here.
func (y *responseRelay) finish(p *attempt, w *h1.Writer) {
	res := &p.conn.res
	sent := y.body.ended() && !y.body.broken && !p.conn.WriteStopped()
	if !sent || !res.KeepAlive() {
		_ = p.conn.Close() // then the app runs it no more, as far as can be told
	}
	why := y.slot.finish()
	p.release()
	last := p.conn.pool.clock.now()
	p.conn.pool.backoff.onAccepted(y.x.limitShard())
	if y.set.MaxShardInflight > 0 {
		p.conn.pool.answered(p.conn)
	}
	// The app is done with the request; the client may take its time.
	switch err := y.close(w, res.Body.Trailers()); {
	case errors.Is(err, h1.ErrUnsent):
		y.x.unsent = true
	case err != nil:
		y.x.cut = true
	}
	y.body.stop()
	p.disconnect.disarm()
	y.trailersDropped(&res.Body, "response")
	if why == causeNone && sent && res.KeepAlive() {
		if p.bodyOnDemand {
			p.conn.Writer().Discard() // both sides know that the body will not come
		}
		p.conn.pool.putUsedAt(p.conn, last)
	} else {
		p.conn.pool.discard(p.conn)
	}
}

// close ends the answer. With the last one goes the end of the connection.
func (y *responseRelay) close(w *h1.Writer, trailers []byte) error {
	if !y.x.keep && !y.body.running && y.last() {
		return w.CloseLast(trailers)
	}
	return w.Close(trailers)
}

// answerLeaves is asked right before the first byte of an answer goes to the client.
func (y *responseRelay) answerLeaves() (time.Duration, error) {
	if !y.slot.mark(slotAnswered) {
		return 0, errCutFirst
	}
	return 0, nil
}

// answered notes that an app's answer is the one that the request gets.
func (r reply) answered(res *h1.Response) {
	r.x.account.answered(res.Status(), res, r.x.route)
	r.s.metrics.request(r.x.route, res.Status())
}

// breakOff ends a trip whose answer broke off after some of it had left.
func (r reply) breakOff(p *attempt, rerr error) {
	run := p.slot.load().number
	switch why := p.abort(); {
	case why != causeNone:
	case errors.Is(rerr, errOver) && p.slot.events.kept(run): // it goes on where it is read
	case errors.Is(rerr, errOver):
		r.s.metrics.cut(causeMoved.String(), 1)
	case rerr != nil:
		r.s.metrics.answersCut.Add(1)
	}
	r.x.cut, r.x.account.code = true, accessCut
}
