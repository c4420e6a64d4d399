//go:build linux && (amd64 || arm64)

package rawio

import (
	"net"
	"os"
	"sync/atomic"
	"syscall"
)

// state is who uses the descriptor of a Conn at this moment, without waiting, and what keeps
// one from it. All of it is one word: each read and each write of a request asks for it, and
// the lock that would guard it cost a thirtieth of the whole.
type state struct{ word atomic.Uint64 }

// bits are of a state. The low half counts users.
type bits uint64

const (
	// closed is set by Close, with mu held: the last user closes the descriptor, or Close.
	closed bits = 1 << (32 + iota)
	// ended says that somebody has begun to.
	ended
	// met says that the poller knows the connection, or is about to; set with mu held.
	met
	// late says that a deadline was over when it was set; likewise.
	late
)

func (b bits) has(some bits) bool { return b&some != 0 }
func (b bits) users() uint32      { return uint32(b) }

func (s *state) now() bits { return bits(s.word.Load()) }

// set sets bits, and returns what was before.
func (s *state) set(some bits) bits { return bits(s.word.Or(uint64(some))) }

func (s *state) unset(some bits) { s.word.And(^uint64(some)) }

// enter counts one more user, and returns what there is.
func (s *state) enter() bits { return bits(s.word.Add(1)) }

// leave counts one less.
func (s *state) leave() bits { return bits(s.word.Add(^uint64(0))) }

// enter gives the caller the use of fd until leave, to do what does not wait; or the caller
// is to go by what the poller knows.
func (c *Conn) enter(d *deadline) (*polled, error) {
	if p := c.known.Load(); p != nil {
		return p, nil
	}
	if !c.state.enter().has(closed | met | late) {
		return nil, nil //nolint:nilnil // fd is the caller's
	}
	p, err := c.bars(d)
	if p != nil || err != nil {
		c.leave()
	}
	return p, err
}

// bars returns what keeps a user from fd; neither: nothing does. Who has counted as one
// meanwhile has done nothing with it.
func (c *Conn) bars(d *deadline) (*polled, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch p := c.known.Load(); {
	case c.state.now().has(closed):
		return nil, net.ErrClosed
	case p != nil:
		return p, nil
	case d != nil && d.past:
		return nil, os.ErrDeadlineExceeded
	}
	return nil, nil //nolint:nilnil // as enter
}

// leave ends what enter began.
func (c *Conn) leave() {
	if b := c.state.leave(); b.users() == 0 && b.has(closed) {
		_ = c.end() // Close has returned
	}
}

// end closes fd, once, after closed is set and with nobody in who uses it. Without mu: it waits
// for those whom the poller has, and they may set deadlines.
func (c *Conn) end() error {
	if c.state.set(ended).has(ended) {
		return nil
	}
	if p := c.known.Load(); p != nil {
		return p.file.Close()
	}
	return syscall.Close(c.fd)
}
