package proxy

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/eventstream"
	"shardway/proxy/h1"
)

// headerResumed tells the app that a request goes on with an event stream that its
// client still reads, and how many such requests may have reached an app so far.
const (
	headerResumed = "Shardway-Stream-Resumed"
	lineResumed   = headerResumed + ": "
	lineLastEvent = "Last-Event-ID: "
	// wordResume is an app's word in FieldShardwayStream.
	wordResume = "resume"
)

// At most so many legs of a stream begin in againWithin under the ownership epoch of the
// one before: an app that breaks its streams again and again is not asked for ever. What
// was before a restart in place does not count.
const (
	againMost   = 3
	againWithin = time.Minute
)

// resumed is an event stream that its client keeps while one leg after the other carries
// it: the connection to the app of its shard's owner. It is kept here, where the client
// is connected. What of an event is not whole when a leg ends has not passed, so the next
// one begins behind the last event that has, by the app's own ids.
type resumed struct {
	hold  eventstream.Hold
	legs  int    // that have begun
	asked uint64 // requests for further ones that may have reached an app
	epoch uint64 // the ownership epoch of the last one
	over  bool   // the last one has ended, and another one is to follow
	again [againMost]time.Time
}

// mayFollow reports whether a leg of this epoch may begin now, and notes that it does.
func (k *resumed) mayFollow(epoch uint64, now time.Time) bool {
	if epoch != k.epoch {
		return true
	}
	if first := k.again[0]; !first.IsZero() && now.Sub(first) < againWithin {
		return false
	}
	copy(k.again[:], k.again[1:])
	k.again[againMost-1] = now
	return true
}

// ownerAway notes that the owner restarts in place: it ended its legs by plan, and comes back
// with the epoch that it had. Nil: there is no stream.
func (k *resumed) ownerAway() {
	if k != nil {
		k.epoch, k.again = 0, [againMost]time.Time{}
	}
}

// mayHaveAsked counts a request for a further leg that may have reached an app. Nil: there
// is no stream.
func (k *resumed) mayHaveAsked() {
	if k != nil {
		k.asked++
	}
}

// appendAsked appends what the app is told by a request for a further leg.
func (k *resumed) appendAsked(b, id []byte) []byte {
	if len(id) > 0 {
		b = append(b, lineLastEvent...)
		b = append(b, id...)
		b = append(b, "\r\n"...)
	}
	return appendResumed(b, k.asked+1)
}

func appendResumed(b []byte, n uint64) []byte {
	b = append(b, lineResumed...)
	b = strconv.AppendUint(b, n, 10)
	return append(b, "\r\n"...)
}

// isResumable reports whether an answer is an event stream that may go on over another
// connection, or be gone on with by this one: nothing in its head is of this one's body
// alone.
func isResumable(res *h1.Response) bool {
	return isEvents(res) && res.ContentLength() < 0 && res.Value("Content-Encoding") == nil && res.Value("Content-Range") == nil
}

// saysResume reports whether the app's word is there, and counts: the request can be sent
// again as it is, and its shard has an owner.
func (y *responseRelay) saysResume(p *attempt) bool {
	return strings.EqualFold(string(p.conn.res.Known(h1.FieldShardwayStream)), wordResume) && isResumable(&p.conn.res) &&
		string(y.req.Method()) == "GET" && y.req.Body.Kind() == h1.NoBody && !y.req.Upgrades() && y.req.Value("Range") == nil &&
		!y.x.keyless && p.conn.inproc == nil
}

// beginEvents begins a leg of an event stream, be it the only one, and returns the flags
// of its run.
func (y *responseRelay) beginEvents(p *attempt) uint64 {
	y.escaped = true
	word, e, run := y.saysResume(p), &y.slot.events, y.slot.load().number
	switch k := y.x.resumed; {
	case k != nil:
		e.again(run, word)
	case word && y.ingress == "":
		k = &resumed{}
		y.x.resumed = k
		y.s.metrics.resumable.Add(1)
		e.begin(run, word, false, &k.hold)
	default:
		e.begin(run, word, y.x.wasResumed > 0, nil)
		return slotAnswered | slotEvents
	}
	y.x.resumed.legs++
	y.x.resumed.epoch = p.epoch
	return slotAnswered | slotEvents | slotKept
}

// cancelEvents forgets a first leg of which nobody has seen anything.
func (y *responseRelay) cancelEvents() {
	if y.x.resumed != nil && !y.x.isStreamResumption() {
		y.x.resumed = nil
		y.s.metrics.resumable.Add(-1)
	}
}

// continuesStream decides what becomes of a stream whose leg has not come to its end: true means
// that another one follows, and that this trip has ended. The client has got whole events
// only, unless one is longer than what is held.
func (y *responseRelay) continuesStream(p *attempt, rerr, werr error) bool {
	k := y.x.resumed
	if k == nil || werr != nil || y.s.closing.Load() {
		return false
	}
	if why := y.slot.load().cause; why == causeGone || why == causeShutdown || why == causeLeaving {
		return false
	}
	var bad *h1.Error
	if y.slot.events.keeps() == 0 || k.hold.Amid() || errors.As(rerr, &bad) {
		y.s.metrics.resumptions[resumeUnfit].Add(1)
		return false
	}
	if y.conn.Writer().Flush() != nil {
		return false
	}
	p.abort()
	k.over = true
	return true
}

// brokeAtOwner reports whether the app of another node broke off before it answered: that
// node does not send the request for a further leg again, for want of a number.
func brokeAtOwner(p *attempt) bool { return saysAtOwner(p, problem.UpstreamBroken) }

// drainedAtOwner reports whether another node cut the request before its app answered, because
// the shard or the node is leaving.
func drainedAtOwner(p *attempt) bool { return saysAtOwner(p, problem.ShardMoved) }

func saysAtOwner(p *attempt, code problem.Code) bool {
	return p.route.Kind == Remote && string(p.conn.res.Known(h1.FieldShardwayError)) == string(code)
}

// unanswered ends a trip for a further leg of which another node says that its app has not
// answered, and may have been asked.
func (c *client) unanswered(p *attempt) decision {
	c.x.resumed.mayHaveAsked()
	if brokeAtOwner(p) {
		return c.handleBroken(p, nil)
	}
	if p.abort(); c.down.Load() {
		return done
	}
	return c.movedOn(p)
}

// movedOn has the request for a further leg, which its app has not answered by
// drain_timeout, sent to the next owner: its stream has only met two planned moves, or more.
// Who says so again under one epoch, though nothing has moved then, is not asked for ever.
func (c *client) movedOn(p *attempt) decision {
	k := c.x.resumed
	if !k.mayFollow(p.epoch, time.Now()) {
		c.reply.giveUp(resumeUnfit, "its requests were drained too often at one owner")
		return done
	}
	k.epoch = p.epoch
	c.afresh()
	return decision{action: actionRetry}
}

// follows takes the answer to a request for a further leg; false means that the stream
// ends here.
func (c *client) follows(p *attempt) bool {
	k := c.x.resumed
	k.asked++
	var detail string
	switch {
	case !isResumable(&p.conn.res):
		detail = "the answer to its request is no event stream that goes on: status " + strconv.Itoa(p.conn.res.Status())
	case !k.mayFollow(p.epoch, time.Now()):
		detail = "it broke off too often at one owner"
	default:
		return true
	}
	p.abort()
	c.reply.giveUp(resumeUnfit, detail)
	return false
}

// nextStream begins to look for the next leg of a stream.
func (c *client) nextStream() {
	x := &c.x
	x.resumed.over = false
	if x.account.leg = x.resumed.legs; !x.account.began.IsZero() {
		accessLine{&c.requestState, &c.keys}.write()
		x.account.again(c.conn)
	}
	c.afresh()
}

// afresh has what is sent next wait and go as a request of its own: with tries of its own,
// and all of QueueWait.
func (c *client) afresh() {
	c.waitAfresh()
	x := &c.x
	x.tries, x.reusedTries, x.responsesBegun, x.notAcquired, x.cutRun, x.wreck = 0, 0, 0, 0, false, nil
}

// waitAfresh gives the request all of QueueWait for what it waits for next.
func (c *client) waitAfresh() {
	x := &c.x
	c.s.metrics.waited(x)
	x.waited, x.waitTime, x.deadline, x.pause = false, 0, time.Time{}, 0
}

// giveUp ends a stream for which there is no further leg: its client sees it cut.
func (r reply) giveUp(why resumeEnd, detail string) {
	r.s.metrics.resumptions[why].Add(1)
	r.s.o.Log.Debug().Uint32("shard", uint32(r.x.shard)).Str("detail", detail).Msg("event stream not resumed")
	r.conn.Writer().Abort()
	r.x.cut, r.x.account.code = true, accessCut
}
