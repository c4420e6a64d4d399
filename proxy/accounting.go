package proxy

import (
	"time"

	"shardway/proxy/loadstats"
	"shardway/proxy/route"
)

// runTimed runs an attempt and records its destination and duration for the access log. It is the
// outermost of three layers: runTimed serves the access log, runCounted serves the metrics, and
// runByKind sends the request. The layers are separate because the time of an attempt before a retry
// counts in the access log, but not in the metrics.
func (runner *attemptRunner) runTimed(attempt *attempt) decision {
	runner.bindAttempt(attempt)
	account := &runner.exchange.account
	startedAt := account.Now() // zero if the access log is off, which saves reading the clock
	writesAccessLog := !startedAt.IsZero()
	if writesAccessLog {
		account.Epoch, account.Owner, account.Instance = attempt.epoch, runner.server.options.Node, 0
		switch {
		case attempt.route.Kind == route.Remote:
			account.Owner = attempt.route.Node
		case runner.server.upstreams.HasInstances():
			account.Instance = int(attempt.route.Instance) + 1
		}
	}
	result := runner.runCounted(attempt)
	account.Upstream += account.Since(startedAt)
	return result
}

// bindAttempt gives the attempt access to the state of the connection on which its request arrived.
func (runner *attemptRunner) bindAttempt(attempt *attempt) {
	attempt.slot, attempt.body, attempt.disconnect = runner.slot, &runner.body, runner.disconnect
	attempt.responsesBefore = runner.exchange.responsesBegun
}

// runCounted runs an attempt, measures it, and counts it if it runs on the local app. An attempt
// that is followed by a retry is not counted, because it has no response.
func (runner *attemptRunner) runCounted(attempt *attempt) decision {
	startedAt, sent := runner.startTimer()
	result := runner.runByKind(attempt)
	runner.recordRun(attempt, result, startedAt, sent)
	return result
}

// startTimer returns the values from which recordRun computes differences: the current time, and
// the number of bytes sent to the client so far.
func (runner *attemptRunner) startTimer() (startedAt time.Duration, sent int64) {
	_, sent = runner.traffic()
	return runner.server.clock.Exact(), sent
}

// recordRun counts a run that has ended with the decision result. startedAt and sent are the
// results of startTimer.
func (runner *attemptRunner) recordRun(attempt *attempt, result decision, startedAt time.Duration, sent int64) {
	switch result.action { //nolint:exhaustive // all other actions mean that the run has no response
	case actionDone, actionNextStream:
		ended := runner.server.clock.Exact()
		runner.recordLoad(attempt.route.Kind, ended-startedAt, sent)
		if result.action == actionDone {
			runner.exchange.endedAt = ended
		}
	case actionRelay:
		runner.relay.webSocket.sentBefore = sent // a relay is counted when it has ended
	}
}

// recordLoad counts a run that has ended after elapsed. sent is the number of bytes that had been sent
// to the client when the run began.
func (runner *attemptRunner) recordLoad(routeKind route.Kind, elapsed time.Duration, sent int64) {
	isTunnel := runner.exchange.account.Status == 101 // mostly idle, so its duration says nothing about load
	if !isTunnel {
		runner.server.metrics.UpstreamDurations[routeKind].Observe(elapsed)
	}
	load := runner.exchange.loadCounters(&runner.server.load, routeKind)
	if load == nil {
		return
	}
	received := int64(len(runner.req.Raw())) + runner.req.Body.Received()
	_, sentNow := runner.traffic()
	load.Requests.Add(1)
	load.Bytes.Add(received + sentNow - sent)
	if !isTunnel {
		load.Busy.Add(int64(elapsed))
	}
}

// loadCounters returns the load counters for a request that runs on the local app, or nil if the
// request is not counted.
func (exchange *exchange) loadCounters(load *loadstats.Collector, routeKind route.Kind) *loadstats.Counters {
	if routeKind != route.Local || exchange.Keyless {
		return nil
	}
	return load.Counters(exchange.shard)
}

// Load returns the current load of this node.
func (s *Server) Load() loadstats.Load {
	access := s.settings.Load().Access
	return s.load.Snapshot(s.options.HashKey(), access != nil && access.Keys)
}
