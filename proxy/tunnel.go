package proxy

import (
	"strings"
	"time"

	"shardway/proxy/connpool"
	"shardway/proxy/h1"
	"shardway/proxy/inbound"
	"shardway/proxy/inflight"
	"shardway/proxy/route"
	"shardway/proxy/wsession"
	"shardway/proxy/wstunnel"
)

// relayUpgrade handles a 101 response. If the connection is a resumable WebSocket, it starts or
// continues the session. Otherwise it runs a tunnel until both sides have ended. It returns false if
// the run was cancelled before any byte of the response was sent.
func (rr *responseRelay) relayUpgrade(attempt *attempt) bool {
	rr.escaped = true
	rr.body.StopSending()
	attempt.disconnect.Disarm()
	session, res := rr.exchange.session, &attempt.conn.Response
	if rr.refusesAccepted(attempt) {
		return true
	}
	if rr.exchange.isResumption() {
		if !rr.settings.CloseSockets && session.IsContinuedBy(res, &rr.req, attempt.route.Kind) {
			return rr.startSession(attempt)
		}
		session.RefusalCode = wsession.CloseShardMoved
		attempt.abort()
		return true
	}
	if !rr.settings.CloseSockets && session.IsResumable(res, attempt.route.Kind) {
		return rr.startSession(attempt)
	}
	if session != nil {
		rr.recordWebSocketPath(attempt, true)
	}
	return rr.runTunnel(attempt)
}

// runTunnel sends a 101 response, and then copies bytes in both directions until both sides have
// ended. When one side closes its sending side, runTunnel passes the close on to the other side. It
// returns false if the run was cancelled before any byte of the response was sent.
func (rr *responseRelay) runTunnel(attempt *attempt) bool {
	res := &attempt.conn.Response
	client := rr.upgradeConn()
	var tunnel *wstunnel.Tunnel
	isWebSocket := strings.EqualFold(string(res.Known(h1.FieldUpgrade)), "websocket")
	if isWebSocket {
		tunnel = wstunnel.New(client, attempt.conn.Conn)
		rr.slot.Tunnel.Store(tunnel)
		defer rr.slot.Tunnel.Store(nil)
	}
	if !rr.slot.SetFlags(inflight.ResponseBegun | inflight.Tunnel) {
		return false
	}
	if attempt.route.Kind == route.Local {
		attempt.conn.Pool.Detach(attempt.conn, nil)
		rr.admission.releasePermits()
	}
	rr.exchange.connAborted = true // the connection carries no further request
	rr.recordResponse(res)
	rr.server.metrics.Tunnels.Add(1)
	defer rr.server.metrics.Tunnels.Add(-1)
	if load := rr.exchange.loadCounters(&rr.server.load, attempt.route.Kind); load != nil {
		load.WebSockets.Add(1)
		defer load.WebSockets.Add(-1)
	}
	if rr.clientHasUpgraded() || rr.writeSwitchingProtocols(attempt, false) {
		rr.releaseBuffers(attempt)
		rr.copyTunnel(client, attempt.conn, tunnel)
	}
	if tunnel != nil {
		tunnel.Finish()
	}
	attempt.abort()
	if tunnel != nil && tunnel.NeedsLingeringClose() {
		client.CloseLinger(h1.WholeRequest)
	}
	return true
}

// releaseBuffers releases the memory of headers that are not needed while a tunnel runs, which may
// take days. The request itself is kept, because it may be repeated for another upstream
// connection.
func (rr *responseRelay) releaseBuffers(attempt *attempt) {
	attempt.conn.Response.Clear()
	rr.req.Compact()
	rr.headerEdit, rr.extraLines = h1.Edit{}, nil
}

// copyTunnel copies both directions. Once one direction has ended, the connection is aborted after
// IdleTimeout. tunnel is nil unless the tunnel is a WebSocket.
func (rr *responseRelay) copyTunnel(client *h1.Conn, conn *connpool.Conn, tunnel *wstunnel.Tunnel) {
	prepareForTunnel(client)
	prepareForTunnel(conn.Conn)
	abort := func() { inflight.CloseAll([]inbound.Aborter{conn.Conn, client}) }
	copyUp := func() bool { return copyOneWay(client, conn.Conn) }
	copyDown := func() bool { return copyOneWay(conn.Conn, client) }
	if tunnel != nil {
		tunnel.Begin()
		abort = tunnel.Abort
		copyUp = func() bool { return tunnel.CopyUp(client, rr.takeFirstMessage()) }
		copyDown = func() bool { return tunnel.CopyDown(conn.Conn) }
	}
	upDone := make(chan struct{})
	go func() {
		defer close(upDone)
		if !rr.server.panics.Copy(copyUp) {
			abort()
		}
	}()
	if !rr.server.panics.Copy(copyDown) {
		abort()
	}
	timer := time.AfterFunc(rr.settings.IdleTimeout, abort)
	<-upDone
	timer.Stop()
}

// prepareForTunnel disables the read timeouts of a connection, because a tunnel may be idle for a
// long time. It also releases empty buffers.
func prepareForTunnel(conn *h1.Conn) {
	timeouts := conn.Timeouts()
	timeouts.Body, timeouts.MinRate = 0, 0
	conn.SetTimeouts(timeouts)
	conn.ReleaseEmptyBuffers()
}

// copyOneWay copies from one connection to the other until the source ends, and then closes the
// sending side of the other. It returns false if the tunnel must be aborted.
func copyOneWay(source, dst *h1.Conn) bool {
	writer := dst.Writer()
	writer.BeginBody(h1.UntilClose, 0)
	var remaining h1.Body
	_, readErr, writeErr := writer.Copy(source.InitRestBody(&remaining))
	if readErr != nil || writeErr != nil {
		return false
	}
	return writer.Flush() == nil && dst.CloseWrite()
}
