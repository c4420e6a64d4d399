package peer

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// How often a prompt connection looks for itself whether something has come. The
// second holds for oftenReads reads after a look has found something, which the
// runtime's poller had not said yet: it is behind.
const (
	lookEvery  = 50 * time.Millisecond
	lookOften  = 10 * time.Millisecond
	oftenReads = 64
	pollEvery  = 5 * time.Millisecond
)

// readWriter is what a prompt connection reads from and writes to.
type readWriter interface {
	Read(b []byte) (int, error)
	Write(b []byte) (int, error)
	SetReadDeadline(t time.Time) error
}

// sooner tells whether what the last Read returned was there when it began. Who cannot tell
// is judged by how long it took.
type sooner interface{ AtOnce() bool }

// prompt is a connection whose reads do not wait for the runtime's poller alone.
//
// A process whose cores are all busy with thousands of connections hears from the
// poller in turn: what came on one connection is read after what came on all the
// others before, half a second later when 3 000 clients ask at once. Requests may
// wait that long, heartbeats may not: a lease is gone by then. Timers are looked at
// before each goroutine that runs, so a read that ends by a deadline, and begins
// again, sees what is there within that deadline.
//
// One goroutine reads at a time.
type prompt struct {
	*net.TCPConn
	in readWriter

	backlog *backlog     // nil: not known
	patient atomic.Bool  // it waits its turn from now on
	until   atomic.Int64 // the reader's deadline in Unix nanoseconds; zero: none
	often   int          // reads for which to look often; the reader's
}

// promptly makes reads of a TCP connection prompt. Others stay as they are.
func promptly(c net.Conn, l *backlog) net.Conn {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	return &prompt{TCPConn: t, in: newRaw(t), backlog: l}
}

// mistrust makes a connection that comes from no node's address wait its turn until it is
// settled: whoever connects and says nothing would cost twenty looks a second, and two
// hundred where the process is behind. No read or write may be under way.
func mistrust(c net.Conn) {
	if p, ok := c.(*prompt); ok {
		p.patient.Store(true)
	}
}

// settle is told what a stream over c turned out to be for. What carries requests
// waits its turn: they are many, and what makes a machine busy. It returns the
// connection to use if nothing wraps c. No read or write may be under way.
func settle(c net.Conn, k Kind) net.Conn {
	p, ok := c.(*prompt)
	if !ok {
		return c
	}
	if k != Forward {
		p.patient.Store(false)
		return c
	}
	if p.TCPConn != nil {
		p.in = p.TCPConn
	}
	p.patient.Store(true)
	return p.TCPConn
}

// Read implements net.Conn.
func (c *prompt) Read(b []byte) (int, error) {
	if c.patient.Load() {
		return c.in.Read(b)
	}
	for looked := false; ; looked = true {
		begun := time.Now()
		if n, done, err := c.poll(b, begun); done {
			return n, err
		}
		look, own := begun.Add(c.every()), true
		if until := c.until.Load(); until != 0 && until <= look.UnixNano() {
			look, own = time.Unix(0, until), false
		}
		if err := c.in.SetReadDeadline(look); err != nil {
			return 0, err
		}
		n, err := c.in.Read(b)
		switch {
		case n == 0 && own && errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case looked && c.atOnce(begun):
			c.often = oftenReads // it was there already
		case c.often > 0:
			c.often--
		}
		return n, err
	}
}

// atOnce reports whether the read that began then did not wait.
func (c *prompt) atOnce(begun time.Time) bool {
	if in, ok := c.in.(sooner); ok {
		return in.AtOnce()
	}
	return time.Since(begun) < time.Millisecond
}

// poll reads without the poller as long as the process is behind: whom the poller wakes
// is at the end of the line, from where no deadline brings him forward. Done is false once
// it is not behind.
func (c *prompt) poll(b []byte, now time.Time) (n int, done bool, err error) {
	in, ok := c.in.(interface {
		Look(b []byte) (n int, there bool, err error)
	})
	if !ok || c.backlog == nil {
		return 0, false, nil
	}
	for c.backlog.long(now) {
		if n, there, err := in.Look(b); there {
			return n, true, err
		}
		if until := c.until.Load(); until != 0 && until <= now.UnixNano() {
			return 0, true, os.ErrDeadlineExceeded
		}
		time.Sleep(pollEvery)
		now = time.Now()
	}
	return 0, false, nil
}

// Write implements net.Conn.
func (c *prompt) Write(b []byte) (int, error) { return c.in.Write(b) }

func (c *prompt) every() time.Duration {
	if c.often > 0 {
		return lookOften
	}
	return lookEvery
}

// SetReadDeadline implements net.Conn. A read under way that looks at this very
// moment heeds it at its next look.
func (c *prompt) SetReadDeadline(t time.Time) error {
	c.until.Store(nanos(t))
	return c.in.SetReadDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *prompt) SetDeadline(t time.Time) error {
	if err := c.SetWriteDeadline(t); err != nil {
		return err
	}
	return c.SetReadDeadline(t)
}

// nanos is zero for no deadline.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(1, t.UnixNano())
}
