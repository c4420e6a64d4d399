package proxy

import (
	"strings"
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/proxy/wsession"
)

// relayUpgrade sends a 101 response, and then copies bytes in both directions until both sides have
// ended. When one side closes its sending side, relayUpgrade closes that direction at the other
// side. It returns false if the run was cancelled before any byte of the response was sent.
func (y *responseRelay) relayUpgrade(p *attempt) bool {
	y.escaped = true
	y.body.stop()
	p.disconnect.disarm()
	if k := y.exchange.session; y.exchange.isResumption() {
		if !k.isContinuedBy(&p.conn.res, &y.req, y.settings, p.route.Kind) {
			k.refused = wsession.CloseMoved
			p.abort()
			return true
		}
		return y.startSession(p)
	} else if k.isResumable(&p.conn.res, y.settings, p.route.Kind) {
		return y.startSession(p)
	}
	if y.exchange.session != nil {
		y.noteWebSocketPath(p, true)
	}
	var ws *webSocketTunnel
	if strings.EqualFold(string(p.conn.res.Known(h1.FieldUpgrade)), "websocket") {
		ws = newWebSocketTunnel(y.conn, p.conn.Conn)
		y.slot.tunnel.Store(ws)
		defer y.slot.tunnel.Store(nil)
	}
	if !y.slot.mark(slotResponseBegun | slotTunnel) {
		return false
	}
	if p.route.Kind == route.Local {
		p.conn.pool.detach(p.conn, nil)
	}
	y.exchange.aborted = true
	y.answered(&p.conn.res)
	y.server.metrics.tunnels.Add(1)
	defer y.server.metrics.tunnels.Add(-1)
	if l := y.server.loadOf(&y.exchange, p.route.Kind); l != nil {
		l.WebSockets.Add(1)
		defer l.WebSockets.Add(-1)
	}
	if y.writeSwitchingProtocols(p, false) {
		y.releaseBuffers(p)
		y.copyTunnel(p.conn, ws)
	}
	if ws != nil {
		ws.tunnelEnded()
	}
	p.abort()
	if ws != nil && ws.lingers.Load() {
		y.conn.CloseLinger(h1.WholeRequest)
	}
	return true
}

// releaseBuffers releases the memory of headers that are not needed while a tunnel runs, which may
// be for days. The request itself stays: it may be sent again for another upstream connection.
func (y *responseRelay) releaseBuffers(p *attempt) {
	p.conn.res.Clear()
	y.req.Compact()
	y.edit, y.extra = h1.Edit{}, nil
}

// copyTunnel copies both directions. A connection of which one direction has ended is aborted after
// IdleTimeout. With ws the tunnel is a WebSocket.
func (y *responseRelay) copyTunnel(l *upstreamConn, ws *webSocketTunnel) {
	for _, end := range []*h1.Conn{y.conn, l.Conn} {
		timeouts := end.Timeouts()
		timeouts.Body, timeouts.MinRate = 0, 0
		end.SetTimeouts(timeouts)
		end.ReleaseEmptyBuffers()
	}
	both := func() { closeAll([]*h1.Conn{l.Conn, y.conn}) }
	upward := func() bool { return copyOneWay(y.conn, l.Conn) }
	downward := func() bool { return copyOneWay(l.Conn, y.conn) }
	if ws != nil {
		ws.begin()
		both = ws.abort
		upward = func() bool { return ws.copyUp(y.conn) }
		downward = func() bool { return ws.copyDown(l.Conn) }
	}
	up := make(chan struct{})
	go func() {
		defer close(up)
		if !y.server.copySafely(upward) {
			both()
		}
	}()
	if !y.server.copySafely(downward) {
		both()
	}
	timer := time.AfterFunc(y.settings.IdleTimeout, both)
	<-up
	timer.Stop()
}

// copyOneWay copies from one connection to the other until the source ends, and then closes the
// sending side of the other one. It returns false if the tunnel must be aborted.
func copyOneWay(from, to *h1.Conn) bool {
	w := to.Writer()
	w.BeginBody(h1.UntilClose, 0)
	var rest h1.Body
	if _, rerr, werr := w.Copy(from.InitRestBody(&rest)); rerr != nil || werr != nil {
		return false
	}
	return w.Flush() == nil && to.CloseWrite()
}
