package proxy

import (
	"time"
)

// The client's node enforces TotalTimeout, because only that node measures the whole time of the client: the time
// includes the queue, retries and other nodes. When the time is over, the sweeper cancels the run of an attempt,
// and waiting in the queue ends. If no byte of the response was sent, the client gets 504; otherwise its connection
// is aborted, so that the response does not look complete. If the body is still being buffered before the first
// attempt, the client gets 408.

// startTotalTimeout starts the TotalTimeout of the request that has been read.
func (c *client) startTotalTimeout() {
	c.endTotalTimeout()
	settings := c.serviceSettings()
	isUnlimited := settings.routes == nil && settings.TotalTimeout <= 0
	if isUnlimited || c.ingress != "" {
		return
	}
	// The owner refuses a request whose path is ambiguous.
	if route, unambiguous := c.findRoute(settings); unambiguous && route.totalTimeout > 0 {
		c.totalDeadline.Store(int64(c.server.clock.Now() + route.totalTimeout))
	}
}

// endTotalTimeout ends the TotalTimeout, because the request has become a WebSocket, another upgraded
// connection or an event stream.
func (state *requestState) endTotalTimeout() {
	if state.totalDeadline.Load() != 0 {
		state.totalDeadline.Store(0)
	}
}

// limitByTotalTimeout returns deadline, or the end of the TotalTimeout of the request if that is earlier.
func (wait *requestWait) limitByTotalTimeout(deadline time.Time) time.Time {
	end := time.Duration(wait.totalDeadline.Load())
	if end == 0 {
		return deadline
	}
	if limit := wait.server.clock.SystemTime(end); limit.Before(deadline) {
		return limit
	}
	return deadline
}
