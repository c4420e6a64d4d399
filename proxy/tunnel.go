package proxy

import (
	"strings"
	"time"

	"shardway/proxy/h1"
)

// tunnel passes an answer 101 on and then bytes, both ways, until both sides
// have ended. Each end is passed on as the end of one half. False means that the run was
// cut before anything of the answer left.
func (y *responseRelay) relayUpgrade(p *attempt) bool {
	y.escaped = true
	y.body.stop()
	p.disconnect.disarm()
	if k := y.x.session; y.x.isResumption() {
		if !k.isContinuedBy(&p.conn.res, &y.req, y.set, p.route.Kind) {
			k.refused = int(closeMoved)
			p.abort()
			return true
		}
		return y.startSession(p)
	} else if k.isResumable(&p.conn.res, y.set, p.route.Kind) {
		return y.startSession(p)
	}
	if y.x.session != nil {
		y.noteWebSocketPath(p, true)
	}
	var ws *webSocketTunnel
	if strings.EqualFold(string(p.conn.res.Known(h1.FieldUpgrade)), "websocket") {
		ws = newWebSocketTunnel(y.conn, p.conn.Conn)
		y.slot.tunnel.Store(ws)
		defer y.slot.tunnel.Store(nil)
	}
	if !y.slot.mark(slotAnswered | slotTunnel) {
		return false
	}
	if p.route.Kind == Local {
		p.conn.pool.detach(p.conn, nil)
	}
	y.x.aborted = true
	y.answered(&p.conn.res)
	y.s.metrics.tunnels.Add(1)
	defer y.s.metrics.tunnels.Add(-1)
	if l := y.s.load.of(&y.x, p.route.Kind); l != nil {
		l.sockets.Add(1)
		defer l.sockets.Add(-1)
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

// releaseBuffers gives back the memory of heads that has no use while a tunnel runs, which may be
// for days. What the request says stays: another leg may ask again.
func (y *responseRelay) releaseBuffers(p *attempt) {
	p.conn.res.Forget()
	y.req.Fit()
	y.edit, y.extra = h1.Edit{}, nil
}

// carry copies both ways. A connection that goes idle while half closed is
// given up after IdleTimeout. With ws it carries a WebSocket.
func (y *responseRelay) copyTunnel(l *upstreamConn, ws *webSocketTunnel) {
	for _, end := range []*h1.Conn{y.conn, l.Conn} {
		patient := end.Timeouts()
		patient.Body, patient.Rate = 0, 0
		end.SetTimeouts(patient)
		end.Idle()
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
		if !y.s.copySafely(upward) {
			both()
		}
	}()
	if !y.s.copySafely(downward) {
		both()
	}
	timer := time.AfterFunc(y.set.IdleTimeout, both)
	<-up
	timer.Stop()
}

// copyOneWay copies what comes from one connection to the other until it ends, and
// passes the end on. False means that the tunnel is broken.
func copyOneWay(from, to *h1.Conn) bool {
	w := to.Writer()
	w.Begin(h1.UntilClose, 0)
	var rest h1.Body
	if _, rerr, werr := w.Copy(from.Rest(&rest)); rerr != nil || werr != nil {
		return false
	}
	return w.Flush() == nil && to.CloseWrite()
}
