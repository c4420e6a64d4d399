package proxy

import (
	"shardway/proxy/cause"
	"shardway/proxy/inbound"
	"shardway/proxy/inflight"
	"shardway/proxy/metrics"
	"shardway/proxy/route"
	"shardway/shardmap"
)

// CancelShards cancels the runs on the local app for the shards for which match returns true, and
// returns their number. A client whose response has not begun receives 502 shard-moved; other
// connections are aborted. reason is the label in the metrics.
func (s *Server) CancelShards(match func(shardmap.Shard) bool, reason string) int {
	n := s.cancelRuns(cause.DrainTimeout, func(current inflight.Run, _ string) bool {
		return current.Kind == route.Local && !current.Has(inflight.Keyless) && match(current.Shard)
	})
	s.metrics.CountAborted(reason, n)
	return n
}

// CancelUpstream cancels all runs on the local app, and returns their number. Requests that are
// safe to repeat are retried.
func (s *Server) CancelUpstream(reason string) int { return s.cancelLocal(cause.Lease, reason) }

// CancelForStop is like CancelUpstream, for a node whose time limit for running requests has passed
// while it stops. Requests that are not safe to repeat receive 502 shard-moved.
func (s *Server) CancelForStop(reason string) int { return s.cancelLocal(cause.Stopping, reason) }

// cancelLocal cancels all runs on the local app, and returns their number.
func (s *Server) cancelLocal(cancelCause cause.Cause, reason string) int {
	n := s.cancelRuns(cancelCause, func(current inflight.Run, _ string) bool { return current.Kind == route.Local })
	s.metrics.CountAborted(reason, n)
	return n
}

// CancelForwarded cancels requests that were forwarded to node for shard s if match returns true,
// and returns their number. Requests that are safe to repeat are retried; the others receive 502.
func (s *Server) CancelForwarded(match func(s shardmap.Shard, node string) bool) int {
	n := s.cancelRuns(cause.OwnerLost, func(current inflight.Run, node string) bool {
		return current.Kind == route.Remote && match(current.Shard, node)
	})
	s.metrics.CountAborted(cause.OwnerLost.String(), n)
	return n
}

// cancelRuns cancels each run for which match returns true, and returns the number of cancelled
// runs.
func (s *Server) cancelRuns(cancelCause cause.Cause, match func(current inflight.Run, node string) bool) int {
	n := 0
	s.conns.Visit(nil, func(all []*client) {
		var toClose []inbound.Aborter
		for _, conn := range all {
			var cancelled bool
			if toClose, cancelled = conn.slot.Cancel(cancelCause, match, toClose); cancelled {
				n++
			}
		}
		inflight.CloseAll(toClose)
	})
	return n
}

// cancelRun cancels current, if it is still the run in slot, and counts it in m as aborted.
func cancelRun(slot *inflight.Slot, current inflight.Run, cancelCause cause.Cause, m *metrics.Metrics) {
	cancelMatching(slot, current, cancelCause, m, func(latest inflight.Run) bool { return latest.Number == current.Number })
}

// cancelBeforeResponse cancels current like cancelRun, unless its response has begun since current
// was loaded. The slot checks and cancels atomically, so a response either continues undisturbed or
// sends no byte.
func cancelBeforeResponse(slot *inflight.Slot, current inflight.Run, cancelCause cause.Cause, m *metrics.Metrics) {
	cancelMatching(slot, current, cancelCause, m, func(latest inflight.Run) bool {
		return latest.Number == current.Number && !latest.Has(inflight.ResponseBegun)
	})
}

// cancelMatching cancels the run in a slot if match returns true for the latest content of the
// slot. current is the run that the caller has seen. An event stream that its next owner resumes is
// not counted as aborted.
func cancelMatching(slot *inflight.Slot, current inflight.Run, cancelCause cause.Cause, m *metrics.Metrics, match func(latest inflight.Run) bool) {
	toClose, cancelled := slot.Cancel(cancelCause, func(latest inflight.Run, _ string) bool { return match(latest) }, nil)
	if !cancelled {
		return
	}
	nextOwnerResumes := current.Has(inflight.Events) && cancelCause == cause.ShardMoved && slot.Events.IsResumable(current.Number)
	if !nextOwnerResumes {
		m.CountAborted(cancelCause.String(), 1)
	}
	inflight.CloseAll(toClose)
}
