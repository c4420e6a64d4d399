package peer

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// How often a prompt connection looks for itself whether something has come, to the grain
// of looks. The first is no part of a heartbeat: where the second look came as often as the
// next message was due, it met what the poller was about to say, and took that for behind.
// The second holds for oftenReads reads after a look has found something, which the
// runtime's poller had not said yet: it is behind.
const (
	lookEvery  = 60 * time.Millisecond
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
// before each goroutine that runs, so a read that one of them ends, and that begins
// again, sees what is there within that time.
//
// One goroutine reads at a time.
type prompt struct {
	*net.TCPConn
	in readWriter

	looks   *looks      // nil: it does not look
	patient atomic.Bool // it waits its turn from now on
	often   int         // reads for which to look often; the reader's
	// divert has what is written; nil: the socket has. A port that closes says goodbye by any
	// goroutine.
	divert atomic.Pointer[func([]byte)]

	mu      sync.Mutex
	until   time.Time // the reader's deadline; zero: none
	due     time.Time // when the read under way is to look; zero: none is, or it looks
	looking bool      // it has been given a deadline in the past, in the place of until
}

// promptly makes reads of a TCP connection prompt. Others stay as they are.
func promptly(c net.Conn, l *looks) net.Conn {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	p := &prompt{TCPConn: t, in: newRaw(t), looks: l}
	if l != nil {
		l.add(p)
	}
	return p
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
// connection to use if nothing wraps c: who has one for each request reads the socket
// itself. No read or write may be under way.
func settle(c net.Conn, k Kind) net.Conn {
	p, ok := c.(*prompt)
	if !ok {
		return c
	}
	if !k.forwards() {
		p.patient.Store(false)
		return c
	}
	p.patient.Store(true)
	if p.looks != nil {
		p.looks.drop(p)
	}
	if k != Forward {
		return c
	}
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
		c.begin(begun.Add(c.every()))
		n, err := c.in.Read(b)
		look, broken := c.end()
		switch {
		case n == 0 && look && errors.Is(err, os.ErrDeadlineExceeded):
			if broken != nil {
				return 0, broken
			}
			continue
		case looked && c.atOnce(begun):
			c.often = oftenReads // it was there already
		case c.often > 0:
			c.often--
		}
		return n, err
	}
}

// begin notes when the read that begins now is to look.
func (c *prompt) begin(due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = due
}

// look ends the read under way if it is to look by now.
func (c *prompt) look(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due.IsZero() || c.due.After(now) {
		return
	}
	c.due, c.looking = time.Time{}, true
	_ = c.in.SetReadDeadline(time.Unix(1, 0)) // where that fails, so does the read
}

// end reports whether the read that has ended was to look. Then the connection has got
// back the reader's own deadline, unless an error says otherwise.
func (c *prompt) end() (look bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if look = c.looking; look {
		err = c.in.SetReadDeadline(c.until)
	}
	c.due, c.looking = time.Time{}, false
	return look, err
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
	if !ok || c.looks == nil {
		return 0, false, nil
	}
	for c.looks.backlog.long(now) {
		if n, there, err := in.Look(b); there {
			return n, true, err
		}
		if c.over(now) {
			return 0, true, os.ErrDeadlineExceeded
		}
		time.Sleep(pollEvery)
		now = time.Now()
	}
	return 0, false, nil
}

// Write implements net.Conn.
func (c *prompt) Write(b []byte) (int, error) {
	if to := c.divert.Load(); to != nil {
		(*to)(b)
		return len(b), nil
	}
	return c.in.Write(b)
}

// Divert has all that is written go to to from now on, and returns what takes it to the
// socket: who writes to TLS above does not wait then. No write may be under way but a goodbye.
func (c *prompt) Divert(to func(b []byte)) (under io.Writer) {
	c.divert.Store(&to)
	return c.in
}

func (c *prompt) every() time.Duration {
	if c.often > 0 {
		return lookOften
	}
	return lookEvery
}

// over reports that the reader's deadline is past.
func (c *prompt) over(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.until.IsZero() && !c.until.After(now)
}

// SetReadDeadline implements net.Conn.
func (c *prompt) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = t
	if c.looking {
		return nil // end sets it
	}
	return c.in.SetReadDeadline(t)
}

// Close implements net.Conn.
func (c *prompt) Close() error {
	if c.looks != nil {
		c.looks.drop(c)
	}
	return c.TCPConn.Close()
}

// SetDeadline implements net.Conn.
func (c *prompt) SetDeadline(t time.Time) error {
	if err := c.SetWriteDeadline(t); err != nil {
		return err
	}
	return c.SetReadDeadline(t)
}
