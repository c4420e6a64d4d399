package proxy

import (
	"errors"
	"io"
	"os"
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/wsframe"
)

// upward carries what near sends, to the end of that or until it has parked.
func (l *leg) upward() (parked bool) {
	for {
		p, err := l.near.PeekFor(l.up.lag)
		switch {
		case errors.Is(err, h1.ErrPaused):
			l.near.ResumeRead()
		case l.up.lag > 0 && errors.Is(err, os.ErrDeadlineExceeded):
			if l.park(&l.up.half, l.near) {
				return true
			}
		case err != nil:
			l.upEnds(err)
			return false
		case l.told.Load() != 0:
			l.discarded = true
			l.near.Take(len(p))
		default:
			l.up.spoke.Store(passing)
			n, stop := l.passUp(p)
			l.spoken(&l.up.half)
			l.near.Take(n)
			if stop {
				return false
			}
		}
		if l.upStops() {
			return false
		}
	}
}

// upWhole reports whether far has got whole messages only.
func (l *leg) upWhole() bool { return l.k.skip || l.scan.Whole() }

// passUp passes on what p has, up to the end of a message if the leg is to be handed
// over. It returns how much of p is done with, and whether that was the last.
func (l *leg) passUp(p []byte) (n int, stop bool) {
	from := 0
	for n < len(p) && (!l.wants(wantMove) || !l.upWhole()) {
		between := l.scan.Between()
		m, err := l.scan.Step(p[n:])
		if err != nil {
			l.breaks(p[from:n], between)
			return n, true
		}
		n += m
		if l.k.skip {
			from = n
			if l.scan.Closed() { // of what is left of a broken message, this passes
				l.nearCloses()
				l.writeUp(wsframe.AppendClose(nil, l.scan.Code(), "", true))
				return n, true
			}
			l.k.skip = !l.scan.Whole()
		}
	}
	if from < n {
		l.clean = l.scan.Between()
	}
	if l.scan.Closed() {
		l.nearCloses()
	}
	return n, !l.writeUp(p[from:n]) || l.scan.Closed()
}

// nearCloses notes a Close of near, before the app can answer it.
func (l *leg) nearCloses() {
	l.closed.Store(true)
	l.awaitAnswer(&l.down.half, func() { l.unlessOver(func() { _ = l.far.Cut() }) })
}

// breaks ends a stream that breaks the protocol, with what came before. Between tells that
// nothing of the frame which does has been passed on.
func (l *leg) breaks(before []byte, between bool) {
	l.bad = true
	if l.clean = l.writeUp(before) && between; l.clean {
		l.tell(closeProtocol, closeFrameWrite)
	}
	l.late(endWait)
}

// writeUp writes to far; false: it takes no more. It may have said why: that is carried
// to its end first.
func (l *leg) writeUp(p []byte) bool {
	w := l.far.Writer()
	_, err := w.Write(p)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		l.clean = false
		l.late(endWait)
		return false
	}
	w.Idle()
	return true
}

// late cuts far if the leg is not over by then.
func (l *leg) late(d time.Duration) { l.after(d, l.far) }

// upStops does what is asked for; true: that is the end of this direction.
func (l *leg) upStops() bool {
	switch {
	case l.wants(wantStop):
		if l.wants(wantClose) {
			l.tell(int(l.code.Load()), closeFrameWrite)
		}
		return true
	case !l.wants(wantMove) || l.told.Load() != 0 || !l.upWhole():
		return false
	case l.app:
		l.handOver()
		return l.client
	}
	// The owner gets the end of our half behind the last message, and tells the app.
	l.late(l.s.o.DrainTimeout + 2*moveAfter)
	if l.halved = l.far.CloseWrite(); !l.halved {
		_ = l.far.Cut()
	}
	return true
}

// handOver tells the app that its shard moves. It has DrainTimeout from now on, also to
// take the Close, if it has much to read before that.
func (l *leg) handOver() {
	within := l.s.o.DrainTimeout
	l.then(within, func() {
		l.tardy.Store(true)
		_ = l.far.Cut()
	})
	l.tell(int(closeMoved), within)
}

// tell sends the app a Close, if it has got whole frames and no Close yet. It may take as
// long as within to take it.
func (l *leg) tell(code int, within time.Duration) {
	closed := l.scan.Closed() && !errors.Is(l.scan.Err(), wsframe.ErrClose) // that one has not been passed on
	if !l.clean || closed || !l.told.CompareAndSwap(0, int32(code)) {
		return
	}
	defer close(l.said)
	l.far.Writer().SetPrecondition(func() (time.Duration, error) { return within, nil })
	var frames []byte
	if l.app && code == int(closeMoved) {
		frames = wsframe.AppendControl(frames, wsframe.OpPing, []byte(pingMoved), true)
	}
	l.writeUp(wsframe.AppendClose(frames, code, reasonOf(code), true))
}

// upEnds is the end of near without a Close. At the owner it may be that of a half: the
// socket is to be handed over.
func (l *leg) upEnds(err error) {
	l.nearEnded, l.nearEOF = true, errors.Is(err, io.EOF)
	switch {
	case l.nearEOF && l.told.Load() != 0:
	case !l.client && l.nearEOF && l.scan.Whole():
		l.handOver()
	default:
		_ = l.far.Cut()
	}
}
