package proxy

import (
	"strings"
	"time"

	"shardway/proxy/h1"
)

// tunnel passes an answer 101 on and then bytes, both ways, until both sides
// have ended. Each end is passed on as the end of one half.
func (c *client) tunnel(p *trip) verdict {
	c.up.stop()
	c.gone.disarm()
	var ws *webSocket
	if strings.EqualFold(string(p.l.res.Known(h1.FieldUpgrade)), "websocket") {
		ws = newWebSocket(c.h, p.l.Conn)
		c.slot.ws.Store(ws)
		defer c.slot.ws.Store(nil)
	}
	if !c.slot.mark(slotAnswered | slotTunnel) {
		return c.broken(p, nil)
	}
	if p.r.Kind == Local {
		p.l.pool.detach(p.l, nil)
	}
	c.x.cut = true
	c.answered(p.l.res.Status(), nil)
	c.s.metrics.request(c.x.route, p.l.res.Status())
	c.s.metrics.tunnels.Add(1)
	defer c.s.metrics.tunnels.Add(-1)
	e := c.editResponse(p, &p.l.res)
	e.Upgrade, e.Close, e.KeepAlive = true, false, false
	if c.h.WriteResponseHead(&p.l.res, e).Close(nil) == nil {
		c.carry(p.l, ws)
	}
	if ws != nil {
		ws.close()
	}
	c.end(p)
	if ws != nil && ws.lingers.Load() {
		c.h.CloseLinger()
	}
	return done
}

// carry copies both ways. A connection that goes idle while half closed is
// given up after IdleTimeout. With ws it carries a WebSocket.
func (c *client) carry(l *link, ws *webSocket) {
	for _, end := range []*h1.Conn{c.h, l.Conn} {
		patient := end.Timeouts()
		patient.Body, patient.Rate = 0, 0
		end.SetTimeouts(patient)
		end.Idle()
	}
	both := func() { closeAll([]*h1.Conn{l.Conn, c.h}) }
	upward := func() bool { return splice(c.h, l.Conn) }
	downward := func() bool { return splice(l.Conn, c.h) }
	if ws != nil {
		ws.begin()
		both = ws.broken
		upward = func() bool { return ws.upward(c.h) }
		downward = func() bool { return ws.downward(l.Conn) }
	}
	up := make(chan struct{})
	go func() {
		defer close(up)
		if !c.s.carrySafely(upward) {
			both()
		}
	}()
	if !c.s.carrySafely(downward) {
		both()
	}
	timer := time.AfterFunc(c.set.IdleTimeout, both)
	<-up
	timer.Stop()
}

// splice copies what comes from one connection to the other until it ends, and
// passes the end on. False means that the tunnel is broken.
func splice(from, to *h1.Conn) bool {
	w := to.Writer()
	w.Begin(h1.UntilClose, 0)
	var rest h1.Body
	if _, rerr, werr := w.Copy(from.Rest(&rest)); rerr != nil || werr != nil {
		return false
	}
	return w.Flush() == nil && to.CloseWrite()
}
