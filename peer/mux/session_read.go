package mux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"
)

// read hands on what comes, until the connection ends.
func (t *Trunk) read() error {
	buf := make([]byte, firstBuffer)
	for have := 0; ; {
		n, err := t.conn.Read(buf[have:])
		if n == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // no lane has ended by that
			}
			return err
		}
		t.heard.Store(int64(max(time.Since(t.born), 1)))
		have += n
		full := have == len(buf)
		at, err := t.takeAll(buf[:have])
		if err != nil {
			return err
		}
		next := buf
		if full && len(buf) < readBuffer {
			next = make([]byte, min(8*len(buf), readBuffer))
		}
		have = copy(next, buf[at:have])
		buf = next
		if err := t.answerKeys(); err != nil {
			return err
		}
		runtime.Gosched() // who was told has its turn: what it asks and says brings more at once
	}
}

// takeAll takes the whole frames in b, and returns how long they are.
func (t *Trunk) takeAll(b []byte) (at int, err error) {
	for {
		f, m, err := cutFrame(b[at:])
		if m == 0 || err != nil {
			return at, err
		}
		at += m
		if err := t.take(f); err != nil {
			return at, err
		}
	}
}

// answerKeys has the writer send what TLS has to say for itself. Who does not read that, and
// goes on asking, loses the trunk.
func (t *Trunk) answerKeys() error {
	if !t.sock.owes() {
		return nil
	}
	if n := t.sock.besides(); n > mostBeside {
		return fmt.Errorf("%w: %d bytes of answers to the other end's TLS are not read", errFrame, n)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.tell()
	}
	return nil
}

// take hands a frame to its lane.
func (t *Trunk) take(f frame) error {
	switch {
	case f.kind == kindLast && t.give != nil:
		return fmt.Errorf("%w: a last lane of the end that opens them", errFrame)
	case f.kind == kindLast:
		return t.lastTaken(f.lane)
	case f.kind == kindPing:
		_ = t.put(kindPong, 0, nil) // where that fails, so does all else
		return nil
	case f.kind == kindPong:
		t.answered()
		return nil
	}
	l, fresh, err := t.lane(f)
	if l == nil || err != nil {
		return err
	}
	if fresh {
		if !t.give(l) {
			return t.refuse(l)
		}
		return nil
	}
	switch f.kind {
	case kindData:
		return l.deliver(f.data)
	case kindCredit:
		return l.earn(binary.BigEndian.Uint32(f.data))
	case kindEnd:
		l.end(false)
	case kindClose: // first it ends, for the trunk may, with its last lane
		l.end(true)
		t.depart(l)
	case kindReset:
		l.cut()
		t.depart(l)
	case kindRefuse:
		t.untake(l)
	case kindOpen, kindPing, kindPong, kindLast:
	}
	return nil
}

// lane returns the lane that a frame is for, nil if the other end has closed that or it has
// ended here; fresh: it begins with this one.
func (t *Trunk) lane(f frame) (l *Lane, fresh bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l = t.lanes[f.lane]
	switch {
	case t.err != nil:
		return nil, false, nil
	case f.kind == kindOpen:
		if t.give == nil || f.lane <= t.last {
			return nil, false, fmt.Errorf("%w: lane %d opened after %d", errFrame, f.lane, t.last)
		}
		t.last = f.lane
		if t.parts {
			return nil, false, nil
		}
		if !t.budget.lend(1) {
			return nil, false, t.turnAway(f.lane)
		}
		return t.begin(f.lane), true, nil
	case f.lane > t.last:
		return nil, false, fmt.Errorf("%w: lane %d has not been opened", errFrame, f.lane)
	}
	t.spoken = max(t.spoken, f.lane)
	if l == nil || l.away {
		return nil, false, nil
	}
	if f.kind == kindRefuse && (t.give != nil || l.spoken) {
		return nil, false, fmt.Errorf("%w: lane %d is refused that was opened by the other end, or taken", errFrame, f.lane)
	}
	l.spoken = true
	return l, false, nil
}
