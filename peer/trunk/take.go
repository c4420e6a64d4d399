package trunk

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
	buf := make([]byte, readBuffer)
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
		at := 0
		for {
			f, m, err := cutFrame(buf[at:have])
			if err != nil {
				return err
			}
			if m == 0 {
				break
			}
			at += m
			if err := t.take(f); err != nil {
				return err
			}
		}
		have = copy(buf, buf[at:have])
		runtime.Gosched() // who was told has its turn: what it asks and says brings more at once
	}
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
		if !l.lent || !t.give(l) {
			t.refuse(l)
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
		l = t.begin(f.lane)
		l.lent = t.budget.lend()
		return l, true, nil
	case f.lane > t.last:
		return nil, false, fmt.Errorf("%w: lane %d has not been opened", errFrame, f.lane)
	}
	t.spoken = max(t.spoken, f.lane)
	if l == nil || l.away {
		return nil, false, nil
	}
	return l, false, nil
}
