package proxy

import (
	"time"

	"shardway/proxy/route"
)

// A long poll is a request of a safe method (GET, HEAD or OPTIONS) whose response has not
// begun within DrainTimeout after the end of its body. Neither a move nor a stop waits longer
// for one, and neither costs its client an error: when the shard moves, the next owner is
// asked, and when the node stops, the connection is closed as an idle one, so that the client
// asks another node. Clients do that only on a connection that has carried a response before
// (RFC 9112, section 9.3.1): on a new connection the long poll may go on until ShutdownTimeout.

// isLongPoll reports whether a client's run is a long poll whose connection may be closed.
func (s *Server) isLongPoll(c *client, r run, now time.Duration) bool {
	if c.ingress != "" || !c.reused.Load() || !r.isUnanswered() || c.body.reading.Load() || c.session.Load() != nil {
		return false // a request that still comes in is none, and a kept WebSocket has its response
	}
	since := c.since
	if asked := time.Duration(c.pollSince.Load()); asked != 0 {
		since = min(since, asked)
	}
	since = max(since, time.Duration(c.body.readAt.Load())) // the app cannot respond before it has the body
	return now-since >= s.o.DrainTimeout
}

// closeLongPoll ends the connection of a long poll, without a response, because the node
// stops. An event stream that goes on has its response: its client sees the stream cut.
func (c *client) closeLongPoll() decision {
	if c.x.resumed != nil {
		c.reply.giveUp(resumeLate, "the node stops")
		return done
	}
	c.x.aborted, c.x.account.code = true, accessCut
	return done
}

// mayAskNextOwner reports whether a request that was cut because its shard moves may be sent
// to the next owner: nothing of a response has left, the method is safe, the table says that
// the shard has left this owner, and a try is left.
func (c *client) mayAskNextOwner(p *attempt) bool {
	if c.x.resumed != nil || c.x.isResumption() {
		return false // these have rules of their own
	}
	if c.x.safety != safeMethod || c.x.Keyless || c.x.responsesBegun > 1 || c.x.tries+1 >= maxTries || !c.body.replayable() {
		return false
	}
	r := c.s.o.Cluster.Table().Route(c.x.shard)
	return r.Kind != route.Local || r.Epoch != p.epoch
}

// askNextOwner has a request sent to the next owner of its shard. A planned move is no
// failure, so the retry budget does not count the request.
func (c *client) askNextOwner() decision {
	c.notePoll()
	c.x.tries++
	c.s.metrics.retries[retryMoved].Add(1)
	return decision{action: actionRetry}
}

// notePoll notes that a long poll goes to another owner. It may wait for the next owner as long
// as any other request: the time that it waited before the app had it does not count.
func (c *client) notePoll() {
	if c.ingress == "" && c.pollSince.Load() == 0 {
		c.pollSince.Store(int64(c.x.began))
	}
	c.resetWait()
}
