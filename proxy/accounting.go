package proxy

import (
	"time"

	"shardway/proxy/loadstats"
	"shardway/proxy/route"
)

// runTimed runs an attempt, and records its destination and duration for the access log.
func (c *client) runTimed(p *attempt) decision {
	c.bindAttempt(p)
	a := &c.exchange.account
	began := a.now()
	if !began.IsZero() {
		a.epoch = p.epoch
		if a.owner = c.server.options.Node; p.route.Kind == route.Remote {
			a.owner = p.route.Node
		}
	}
	v := c.runCounted(p)
	a.upstream += a.since(began)
	return v
}

// bindAttempt gives the attempt access to the state of the connection on which its request arrived.
func (c *client) bindAttempt(p *attempt) {
	p.slot, p.body, p.disconnect, p.responsesBefore = &c.slot, &c.body, &c.disconnect, c.exchange.responsesBegun
}

// runCounted runs an attempt, measures it, and counts it if it runs on the local app. An attempt
// that is followed by a retry is not counted.
func (c *client) runCounted(p *attempt) decision {
	began, sent := c.startTimer()
	v := c.runByKind(p)
	c.recordRun(p, v, began, sent)
	return v
}

// startTimer returns the values from which recordRun computes differences: the present time, and
// the number of bytes sent to the client so far.
func (c *client) startTimer() (began time.Duration, sent int64) {
	return c.server.clock.Exact(), c.conn.Sent() + int64(c.conn.Writer().Pending())
}

// recordRun counts a run that has ended with the decision v. began and sent are the results of
// startTimer.
func (c *client) recordRun(p *attempt, v decision, began time.Duration, sent int64) {
	switch v.action { //nolint:exhaustive // all other actions mean that the run has no response
	case actionDone, actionNextStream:
		ended := c.server.clock.Exact()
		c.recordLoad(p.route.Kind, ended-began, sent)
		if v.action == actionDone {
			c.exchange.ended = ended
		}
	case actionRelay:
		c.relay.webSocket.sent = sent // a relay is counted when it has ended
	}
}

// recordLoad counts a run that has ended after took. sent is the number of bytes that were sent to
// the client before it.
func (c *client) recordLoad(way route.Kind, took time.Duration, sent int64) {
	tunnel := c.exchange.account.status == 101 // an upgraded connection is idle most of the time, so its duration is no measure of load
	if !tunnel {
		c.server.metrics.upstream[way].Observe(took)
	}
	l := c.server.loadOf(&c.exchange, way)
	if l == nil {
		return
	}
	l.Requests.Add(1)
	l.Bytes.Add(int64(len(c.req.Raw())) + c.req.Body.Received() + c.conn.Sent() + int64(c.conn.Writer().Pending()) - sent)
	if !tunnel {
		l.Busy.Add(int64(took))
	}
}

// loadOf returns the counters for a request that runs on the local app. It returns nil if the
// request is not counted.
func (s *Server) loadOf(x *exchange, way route.Kind) *loadstats.Counters {
	if way != route.Local || x.Keyless {
		return nil
	}
	return s.load.Counters(x.shard)
}

// Load returns the present load of this node.
func (s *Server) Load() loadstats.Load {
	access := s.settings.Load().Access
	return s.load.Snapshot(s.options.HashKey(), access != nil && access.Keys)
}
