package proxy

import (
	"strings"
	"time"

	"shardway/proxy/connpool"
	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/proxy/wsession"
)

// relayUpgrade sends a 101 response, and then copies bytes in both directions until both sides have
// ended. When one side closes its sending side, relayUpgrade closes that direction at the other
// side. It returns false if the run was cancelled before any byte of the response was sent.
func (rr *responseRelay) relayUpgrade(attempt *attempt) bool {
	rr.escaped = true
	rr.body.stopSending()
	attempt.disconnect.disarm()
	if session := rr.exchange.session; rr.exchange.isResumption() {
		if !session.isContinuedBy(&attempt.conn.Response, &rr.req, rr.settings, attempt.route.Kind) {
			session.refusalCode = wsession.CloseShardMoved
			attempt.abort()
			return true
		}
		return rr.startSession(attempt)
	} else if session.isResumable(&attempt.conn.Response, rr.settings, attempt.route.Kind) {
		return rr.startSession(attempt)
	}
	if rr.exchange.session != nil {
		rr.noteWebSocketPath(attempt, true)
	}
	var tunnel *webSocketTunnel
	if strings.EqualFold(string(attempt.conn.Response.Known(h1.FieldUpgrade)), "websocket") {
		tunnel = newWebSocketTunnel(rr.conn, attempt.conn.Conn)
		rr.slot.tunnel.Store(tunnel)
		defer rr.slot.tunnel.Store(nil)
	}
	if !rr.slot.setFlags(slotResponseBegun | slotTunnel) {
		return false
	}
	if attempt.route.Kind == route.Local {
		attempt.conn.Pool.Detach(attempt.conn, nil)
	}
	rr.exchange.connAborted = true
	rr.recordResponse(&attempt.conn.Response)
	rr.server.metrics.Tunnels.Add(1)
	defer rr.server.metrics.Tunnels.Add(-1)
	if load := rr.server.loadOf(&rr.exchange, attempt.route.Kind); load != nil {
		load.WebSockets.Add(1)
		defer load.WebSockets.Add(-1)
	}
	if rr.writeSwitchingProtocols(attempt, false) {
		rr.releaseBuffers(attempt)
		rr.copyTunnel(attempt.conn, tunnel)
	}
	if tunnel != nil {
		tunnel.finish()
	}
	attempt.abort()
	if tunnel != nil && tunnel.needsLingeringClose.Load() {
		rr.conn.CloseLinger(h1.WholeRequest)
	}
	return true
}

// releaseBuffers releases the memory of headers that are not needed while a tunnel runs, which may
// be for days. The request itself stays: it may be retried for another upstream connection.
func (rr *responseRelay) releaseBuffers(attempt *attempt) {
	attempt.conn.Response.Clear()
	rr.req.Compact()
	rr.headerEdit, rr.extraLines = h1.Edit{}, nil
}

// copyTunnel copies both directions. A connection of which one direction has ended is aborted after
// IdleTimeout. With ws the tunnel is a WebSocket.
func (rr *responseRelay) copyTunnel(conn *connpool.Conn, tunnel *webSocketTunnel) {
	for _, end := range []*h1.Conn{rr.conn, conn.Conn} {
		timeouts := end.Timeouts()
		timeouts.Body, timeouts.MinRate = 0, 0
		end.SetTimeouts(timeouts)
		end.ReleaseEmptyBuffers()
	}
	waitBoth := func() { closeAll([]*h1.Conn{conn.Conn, rr.conn}) }
	upward := func() bool { return copyOneWay(rr.conn, conn.Conn) }
	downward := func() bool { return copyOneWay(conn.Conn, rr.conn) }
	if tunnel != nil {
		tunnel.begin()
		waitBoth = tunnel.abort
		upward = func() bool { return tunnel.copyUp(rr.conn) }
		downward = func() bool { return tunnel.copyDown(conn.Conn) }
	}
	upDone := make(chan struct{})
	go func() {
		defer close(upDone)
		if !rr.server.copyRecovering(upward) {
			waitBoth()
		}
	}()
	if !rr.server.copyRecovering(downward) {
		waitBoth()
	}
	timer := time.AfterFunc(rr.settings.IdleTimeout, waitBoth)
	<-upDone
	timer.Stop()
}

// copyOneWay copies from one connection to the other until the source ends, and then closes the
// sending side of the other one. It returns false if the tunnel must be aborted.
func copyOneWay(source, dst *h1.Conn) bool {
	writer := dst.Writer()
	writer.BeginBody(h1.UntilClose, 0)
	var remaining h1.Body
	if _, readErr, writeErr := writer.Copy(source.InitRestBody(&remaining)); readErr != nil || writeErr != nil {
		return false
	}
	return writer.Flush() == nil && dst.CloseWrite()
}
