package proxy

// sessionLog writes the lines of a kept socket, in the place of the one of its request: as a
// leg begins, as it ends, and if no other one follows where one was waited for.
type sessionLog struct{ *requestState }

// Words of the lines.
const (
	lineBegin = "begin"
	lineEnd   = "end"
	lineLost  = "lost"
)

// begins tells how long the client has waited for the leg, from its request or from the end
// of the leg before.
func (l sessionLog) relayStarted() {
	k, in := l.x.session, int64(0)
	if k.relays == 1 {
		in = int64(len(l.req.Raw()))
	}
	l.x.account.upstream = 0 // that of the leg before
	l.write(in, lineBegin, relayStartNames[k.startedBy])
}

// ends tells what has passed in the leg.
func (l sessionLog) relayEnded(end relayEnd) {
	a := &l.x.account
	a.upstream = a.since(a.began)
	l.write(l.conn.Received()-a.received, lineEnd, relayEndNames[end])
}

// lost tells that the socket is without a leg and stays so.
func (l sessionLog) sessionLost(end sessionEnd) {
	l.x.account.upstream = 0
	l.write(0, lineLost, sessionEndNames[end])
}

// write writes one line, and begins the next.
func (l sessionLog) write(in int64, word, why string) {
	a := &l.x.account
	if a.began.IsZero() {
		return
	}
	a.leg = l.x.session.relays
	accessLine{l.requestState, &finder{req: &l.req, from: &l.from, set: l.set}}.send(in, word, why)
	a.open(l.conn)
	a.held = 0
}
