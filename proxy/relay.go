package proxy

import (
	"errors"
	"time"

	"shardway/proxy/h1"
)

// An answer of known length, up to heldAnswer, is held until it is whole, heldFor at
// most: most apps write head and body apart, and what dies between the two then
// costs no client its answer. It is the size of a link's read buffer.
const (
	heldAnswer = upstreamRead
	heldFor    = 25 * time.Millisecond
)

// errCutFirst reports a run that was cut before the first byte of its answer left.
var errCutFirst = errors.New("proxy: cut before the answer began")

// relay passes the answer that has begun to come in on to the client, and ends
// the trip. Once its first byte leaves there is no other answer: what breaks off
// then is cut. One that is here as a whole leaves when its run has ended already:
// the app is done with the request, so a cut takes nothing from the client, and a
// client that reads slowly holds up no drain.
func (c *client) relay(p *trip) verdict {
	res := &p.l.res
	c.x.heads++
	if err := res.Body.Gather(heldAnswer, heldFor); err != nil {
		return c.broken(p, err)
	}
	streams := isEvents(res)
	if streams {
		c.slot.events.begin()
		if !c.slot.mark(slotAnswered | slotEvents) {
			return c.broken(p, nil)
		}
		if p.r.Kind == Local {
			p.l.pool.detach(p.l, nil)
		}
	}
	p.l.pool.gate.served()
	before, keep := c.h.Sent(), c.x.keep
	w := c.h.WriteResponseHead(res, c.editResponse(p, res))
	var rerr, werr error
	if streams {
		rerr, werr = c.slot.events.copy(w, &res.Body)
	} else {
		w.Gate(c.leaves)
		if res.Body.Whole() {
			w.Reserve(int(res.Body.Remaining()))
		}
		_, rerr, werr = w.Copy(&res.Body)
		w.Gate(nil)
	}
	failed := rerr != nil || werr != nil
	if failed && c.h.Sent() == before && !c.slot.mark(slotAnswered) {
		w.Discard() // nobody has seen anything of it
		c.x.keep = keep
		return c.broken(p, rerr)
	}
	c.answered(res.Status(), res)
	c.s.metrics.request(c.x.route, res.Status())
	if failed {
		return c.cutOff(p, w, rerr)
	}
	sent := c.up.ended() && !c.up.broken
	if !sent || !res.KeepAlive() {
		_ = p.l.Close() // then the app runs it no more, as far as can be told
	}
	why := c.slot.finish()
	p.release()
	p.l.pool.busy.took(c.x.countsFor())
	// The app is done with the request; the client may take its time.
	if w.Close(res.Body.Trailers()) != nil {
		c.x.cut = true
	}
	c.up.stop()
	c.gone.disarm()
	if why == causeNone && sent && res.KeepAlive() {
		if p.demand {
			p.l.Writer().Discard() // both sides know that the body will not come
		}
		p.l.pool.put(p.l)
	} else {
		p.l.pool.drop(p.l)
	}
	return done
}

// answerLeaves is asked right before the first byte of an answer goes to the client.
func (c *client) answerLeaves() (time.Duration, error) {
	if !c.slot.mark(slotAnswered) {
		return 0, errCutFirst
	}
	return 0, nil
}

// cutOff ends a trip whose answer broke off after some of it had left.
func (c *client) cutOff(p *trip, w *h1.Writer, rerr error) verdict {
	w.Abort()
	switch why := c.end(p); {
	case why != causeNone:
	case errors.Is(rerr, errOver):
		c.s.metrics.cut(causeMoved.String(), 1)
	case rerr != nil:
		c.s.metrics.answersCut.Add(1)
	}
	c.x.cut, c.x.account.code = true, accessCut
	return done
}

// editResponse says what changes in an answer on its way to the client.
func (c *client) editResponse(p *trip, res *h1.Response) *h1.Edit {
	e := &c.edit
	*e = h1.Edit{Drop: h1.Of(h1.FieldShardwayMap, h1.FieldShardwayRefused), Date: c.s.date()}
	if p.r.Kind == Local {
		e.Drop |= h1.Of(h1.FieldShardwayError) // the proxy's own word
	}
	c.extra = c.extra[:0]
	if c.ingress == "" {
		c.exposeAnswer(p, e)
	}
	e.Extra = c.extra
	if c.early(res) || !c.mayKeep() {
		c.x.keep, e.Close = false, true
	}
	if c.req.Minor() == 0 {
		c.editForOld(res, e)
	}
	return e
}

// editForOld frames an answer for an HTTP/1.0 client, which knows no chunks.
func (c *client) editForOld(res *h1.Response, e *h1.Edit) {
	e.Old = true
	switch res.Body.Kind() {
	case h1.Chunked, h1.UntilClose:
		c.x.keep = false
	case h1.NoBody, h1.Length:
		e.KeepAlive = c.mayKeep()
	}
}

// mayKeep reports whether the connection may carry another request after this
// one's answer, as far as is known when the answer begins.
func (c *client) mayKeep() bool {
	if !c.x.keep || c.draining() {
		return false
	}
	return c.up.running || c.req.Body.Done() || c.drains()
}

// early reports an answer that does not wait for the rest of the request: how much
// of that the app will take, and the client send, nobody knows, so the connection
// ends with it (RFC 9112 section 9.6). A success that is being streamed may go along
// with what it answers, and ends the connection only if it ends first.
func (c *client) early(res *h1.Response) bool {
	if !c.up.running || c.up.ending.Load() {
		return false
	}
	kind := res.Body.Kind()
	streamed := kind == h1.Chunked || kind == h1.UntilClose
	return !streamed || res.Status() >= 300 || !res.KeepAlive()
}

// relayInterim passes a 1xx answer on to those who understand it. 100 is for
// clients that wait for it.
func (c *client) relayInterim(res *h1.Response) error {
	if c.req.Minor() == 0 || res.Status() == 100 && !c.req.Expects() {
		return nil
	}
	c.edit = h1.Edit{Drop: h1.Shardway}
	w := c.h.WriteResponseHead(res, &c.edit)
	return w.Close(nil)
}

// headerContinue marks a request whose ingress waits to hear that the app takes it,
// and the 100 that says so: for the body, or only to know. Its value in the request
// says which, and whether the client waits for a 100 of its own.
const headerContinue = "Shardway-Continue"

// tellTaken tells the ingress, if it wants to know, that this node has admitted the
// request and that its app takes it: now the body may come.
func (c *client) tellTaken() error {
	if c.x.asked || !c.x.onDemand && !c.x.tells {
		return nil
	}
	c.x.asked = true
	w := c.h.Writer()
	w.PutString("HTTP/1.1 100 Continue\r\n" + headerContinue + ": 1\r\n\r\n")
	return w.Flush()
}
