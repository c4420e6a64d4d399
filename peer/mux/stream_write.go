package mux

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// Write implements net.Conn. What it has taken is as good as sent: of a trunk that breaks
// nobody knows what the other end has read.
func (l *Lane) Write(p []byte) (n int, err error) {
	bulk := len(p) > maxData
	for n < len(p) {
		room, err := l.reserve(min(len(p)-n, maxData))
		if err != nil {
			return n, err
		}
		taken, err := l.t.send(l, p[n:n+room], bulk)
		if err != nil {
			return n, err
		}
		if taken {
			n += room
			continue
		}
		if err := l.crowded(room); err != nil {
			return n, err
		}
	}
	return n, nil
}

// reserve waits for credit, and takes of it what is wanted, or less.
func (l *Lane) reserve(want int) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if err := l.mayWrite(); err != nil {
			return 0, err
		}
		if n := min(want, l.credit); n > 0 {
			l.credit -= n
			return n, nil
		}
		l.awaitRoom()
	}
}

// crowded gives credit back and waits until the trunk may have room for it.
func (l *Lane) crowded(n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.credit += n
	if l.roomy {
		l.roomy = false
		return nil
	}
	if err := l.mayWrite(); err != nil {
		return err
	}
	l.awaitRoom()
	l.roomy = false
	return nil
}

// mayWrite says why nothing may be written. With mu held.
func (l *Lane) mayWrite() error {
	switch {
	case l.closed || l.halved:
		return net.ErrClosed
	case l.err != nil:
		return l.err
	case l.unread:
		return errPipe
	case l.writes.late():
		return os.ErrDeadlineExceeded
	}
	return nil
}

// awaitRoom waits until the writer is to look again. With mu held, which it lets go
// meanwhile.
func (l *Lane) awaitRoom() {
	if l.more == nil {
		l.more = make(chan struct{}, 1)
	}
	l.writing = true
	l.writes.arm(l.writesLate)
	more := l.more
	l.mu.Unlock()
	<-more
	l.mu.Lock()
}

// room tells that the trunk may have some. It may come before the writer waits for it.
func (l *Lane) room() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roomy = true
	l.wakeWriter()
}

// wakeWriter has the writer look again. With mu held.
func (l *Lane) wakeWriter() {
	if l.writing {
		l.writing = false
		l.more <- struct{}{} // has room: writing says that it is empty
	}
}

// earn takes credit that has come.
func (l *Lane) earn(n uint32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n == 0 || n > Window || l.credit+int(n) > Window {
		return fmt.Errorf("%w: credit of %d bytes on lane %d, which has %d", errFrame, n, l.id, l.credit)
	}
	l.credit += int(n)
	l.wakeWriter()
	return nil
}

// CloseWrite says that no more bytes come from this end.
func (l *Lane) CloseWrite() error {
	l.mu.Lock()
	// It waits for nothing, so that the deadline of a write is none of its own, as with TCP.
	if err := l.mayWrite(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		l.mu.Unlock()
		return err
	}
	l.halved = true
	l.mu.Unlock()
	return l.t.put(kindEnd, l.id, nil)
}

// SetLinger makes Close cut the lane, if sec is 0, as it does with a socket.
func (l *Lane) SetLinger(sec int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hard = sec == 0
	return nil
}

// Close implements net.Conn. The other end reads what was written, and then the end.
func (l *Lane) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return net.ErrClosed
	}
	l.closed = true
	k := kindClose
	if l.hard {
		k = kindReset
	}
	l.discard()
	l.unshare()
	l.reads.stop()
	l.writes.stop()
	l.wakeReader()
	l.wakeWriter()
	l.leaves()
	l.mu.Unlock()
	l.t.drop(l, k)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (l *Lane) SetWriteDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes.set(t, l.writing, l.writesLate)
	if l.writes.over {
		l.wakeWriter()
	}
	return nil
}

func (l *Lane) writesLate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writes.late() {
		l.wakeWriter()
	}
}
