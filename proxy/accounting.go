package proxy

import (
	"time"

	"shardway/proxy/loadstats"
	"shardway/proxy/route"
)

// runTimed runs an attempt, and records its destination and duration for the access log.
func (c *client) runTimed(attempt *attempt) decision {
	c.bindAttempt(attempt)
	account := &c.exchange.account
	began := account.now()
	if !began.IsZero() {
		account.epoch = attempt.epoch
		if account.owner = c.server.options.Node; attempt.route.Kind == route.Remote {
			account.owner = attempt.route.Node
		}
	}
	result := c.runCounted(attempt)
	account.upstream += account.since(began)
	return result
}

// bindAttempt gives the attempt access to the state of the connection on which its request arrived.
func (c *client) bindAttempt(attempt *attempt) {
	attempt.slot, attempt.body, attempt.disconnect, attempt.responsesBefore = &c.slot, &c.body, &c.disconnect, c.exchange.responsesBegun
}

// runCounted runs an attempt, measures it, and counts it if it runs on the local app. An attempt
// that is followed by a retry is not counted.
func (c *client) runCounted(attempt *attempt) decision {
	began, sent := c.startTimer()
	result := c.runByKind(attempt)
	c.recordRun(attempt, result, began, sent)
	return result
}

// startTimer returns the values from which recordRun computes differences: the present time, and
// the number of bytes sent to the client so far.
func (c *client) startTimer() (began time.Duration, sent int64) {
	return c.server.clock.Exact(), c.conn.Sent() + int64(c.conn.Writer().Pending())
}

// recordRun counts a run that has ended with the decision v. began and sent are the results of
// startTimer.
func (c *client) recordRun(attempt *attempt, result decision, began time.Duration, sent int64) {
	switch result.action { //nolint:exhaustive // all other actions mean that the run has no response
	case actionDone, actionNextStream:
		ended := c.server.clock.Exact()
		c.recordLoad(attempt.route.Kind, ended-began, sent)
		if result.action == actionDone {
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
	load := c.server.loadOf(&c.exchange, way)
	if load == nil {
		return
	}
	load.Requests.Add(1)
	load.Bytes.Add(int64(len(c.req.Raw())) + c.req.Body.Received() + c.conn.Sent() + int64(c.conn.Writer().Pending()) - sent)
	if !tunnel {
		load.Busy.Add(int64(took))
	}
}

// loadOf returns the counters for a request that runs on the local app. It returns nil if the
// request is not counted.
func (s *Server) loadOf(exchange *exchange, way route.Kind) *loadstats.Counters {
	if way != route.Local || exchange.Keyless {
		return nil
	}
	return s.load.Counters(exchange.shard)
}

// Load returns the present load of this node.
func (s *Server) Load() loadstats.Load {
	access := s.settings.Load().Access
	return s.load.Snapshot(s.options.HashKey(), access != nil && access.Keys)
}
