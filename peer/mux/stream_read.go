package mux

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// deliver takes bytes that have come.
func (l *Lane) deliver(p []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.allowed -= len(p); l.allowed < 0 {
		return fmt.Errorf("%w: %d bytes more on lane %d than it has credit for", errFrame, -l.allowed, l.id)
	}
	if l.ended || l.err != nil || l.closed {
		return nil // behind the end, or nobody wants it
	}
	if l.in == nil {
		l.in = borrow()
	}
	l.in.b, l.taken = compact(l.in.b, l.taken, len(p), l.window)
	l.in.b = append(l.in.b, p...)
	l.wakeReader()
	return nil
}

// end notes that no more bytes come; unread: nor are any taken.
func (l *Lane) end(unread bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.unread = true, l.unread || unread
	l.wakeReader()
	if unread {
		l.wakeWriter()
	}
	l.leaves()
}

// cut breaks the lane as the other end wants it, though it may have said its end.
func (l *Lane) cut() {
	l.mu.Lock()
	l.ended = false
	l.mu.Unlock()
	l.fail(errReset)
}

// fail breaks the lane. What has come is read before, also the end.
func (l *Lane) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = err
	l.wakeReader()
	l.wakeWriter()
	l.leaves()
}

// leaves tells who wants to know that the other end has left. With mu held.
func (l *Lane) leaves() {
	if f := l.gone; f != nil {
		l.gone = nil
		go f()
	}
}

// discard gives back what holds unread bytes. With mu held.
func (l *Lane) discard() {
	if l.in != nil {
		l.in.giveBack()
		l.in, l.taken = nil, 0
	}
}

// wakeReader has the reader look again. With mu held.
func (l *Lane) wakeReader() {
	if l.reading {
		l.reading = false
		l.some <- struct{}{} // has room: reading says that it is empty
	}
	if f := l.ready; f != nil {
		l.ready = nil
		f()
	}
}

// Ready has wake called, once, as soon as Read would return at once, be it for a deadline or
// because the lane has been closed; false: it would now. So nobody has to wait there. Wake is
// called by who brings that about, with the lane locked: it must not wait, nor use the lane.
func (l *Lane) Ready(wake func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.in != nil || l.ended || l.closed || l.err != nil || l.reads.late() {
		return false
	}
	l.ready = wake
	l.some, l.reads.timer = nil, nil // of who waits, which nobody does now
	l.reads.arm(l.readsLate)
	return true
}

// wait waits until there is something to read, or nothing to wait for. With mu held,
// which it lets go meanwhile.
func (l *Lane) wait() error {
	for l.in == nil {
		switch {
		case l.closed:
			return net.ErrClosed
		case l.ended:
			return io.EOF
		case l.err != nil:
			return l.err
		case l.reads.late():
			return os.ErrDeadlineExceeded
		}
		if l.some == nil {
			l.some = make(chan struct{}, 1)
		}
		l.reading = true
		if !l.reads.armed() {
			l.reads.arm(l.readsLate)
		}
		some := l.some
		l.mu.Unlock()
		<-some
		l.mu.Lock()
	}
	if l.reads.late() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Await waits until Read returns at once.
func (l *Lane) Await() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wait()
}

// Read implements net.Conn.
func (l *Lane) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	l.mu.Lock()
	if err := l.wait(); err != nil {
		l.mu.Unlock()
		return 0, err
	}
	n := copy(p, l.in.b[l.taken:])
	if l.taken += n; l.taken == len(l.in.b) {
		l.discard()
	}
	back := 0
	if l.eaten += n; l.eaten >= l.window/2 && !l.ended {
		back = l.refill()
		l.allowed += back
	}
	l.mu.Unlock()
	if back > 0 {
		l.t.credit(l, back)
	}
	return n, nil
}

// Quiet reports whether there is nothing to read, no end and no error.
func (l *Lane) Quiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.in == nil && !l.ended && !l.closed && l.err == nil
}

// WatchGone calls gone, once and from a goroutine of its own, when the other end has said
// its end or the lane breaks. The function it returns ends that, and reports whether gone
// has not been called and will not be.
func (l *Lane) WatchGone(gone func()) (stop func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = gone
	if l.ended || l.closed || l.err != nil {
		l.leaves()
	}
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		before := l.gone != nil
		l.gone = nil
		return before
	}
}

// SetReadDeadline implements net.Conn.
func (l *Lane) SetReadDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads.set(t, l.reading || l.ready != nil, l.readsLate)
	if l.reads.over {
		l.wakeReader()
	}
	return nil
}

func (l *Lane) readsLate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reads.late() {
		l.wakeReader()
	}
}
