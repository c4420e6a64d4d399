package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
)

// refuse tells the dialer why not. The answer fits any socket's buffer, and
// the dialer has sent nothing beyond its preface, so the close that follows
// does not reset it away.
func (s *server) refuse(c net.Conn, re *RefusedError, from string) {
	s.p.counts.refused.Add(1)
	if s.p.logLimiter.allow(c.RemoteAddr(), &s.p.o, re.Reason) {
		s.p.o.Log.Warn().Str("peer", from).Stringer("addr", c.RemoteAddr()).
			Stringer("check", re.Code).Str("reason", truncate(re.Reason)).Int("left_out", s.p.logLimiter.takeSuppressed()).Msg("peer stream refused")
	}
	if _, err := c.Write(encodeRefused(re)); err != nil {
		return
	}
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
	}
}

// unreadable answers what could not be understood, if it began as ours.
func (s *server) rejectHello(c net.Conn, err error) {
	var re *RefusedError
	switch {
	case errors.Is(err, errTLS):
		s.refuse(c, refuse(RefusedSeal, "%s", reasonNoTLSHere), "")
		linger(c)
	case errors.As(err, &re):
		s.refuse(c, re, "")
	case errors.Is(err, errMalformed):
		s.refuse(c, refuse(RefusedMalformed, "%v", err), "")
	default:
		s.countBroken(c, err)
	}
}

// broken notes a connection that nobody waits on. Port scans and dying peers
// are daily business: debug.
func (s *server) countBroken(c net.Conn, err error) {
	s.p.counts.broken.Add(1)
	s.p.o.Log.Debug().Stringer("addr", c.RemoteAddr()).Err(err).Msg("peer preface incomplete")
}

// The two ways in which plain nodes and nodes with TLS meet.
const (
	reasonNoTLSHere   = "the dialer speaks TLS and this node does not: start this one with the secret of the others (--secret-file), or those without"
	reasonTLSRequired = "this node speaks TLS only and the dialer does not: start that one with the secret of the cluster (--secret-file)"
	reasonNoTLSThere  = "it does not speak TLS and this node does: it was started without the secret of the cluster (--secret-file)"
)

// unsealed notes a dialer with whom no TLS came about. A plain node is told so
// in its own language.
func (s *server) rejectTLS(c net.Conn, err error) {
	var th tls.RecordHeaderError
	var ne net.Error
	switch {
	case errors.As(err, &th) && string(th.RecordHeader[:len(magic)]) == magic:
		s.refuse(c, refuse(RefusedSeal, "%s", reasonTLSRequired), "")
		linger(c)
	case errors.As(err, &th), errors.As(err, &ne), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		s.countBroken(c, err) // a port scan, or a dialer that went
	default:
		s.p.counts.refused.Add(1)
		if s.p.logLimiter.allow(c.RemoteAddr(), &s.p.o, err.Error()) {
			s.p.o.Log.Warn().Stringer("addr", c.RemoteAddr()).Str("error", truncate(err.Error())).Int("left_out", s.p.logLimiter.takeSuppressed()).Msg("peer refused")
		}
	}
}

// linger reads what the other side still sends, within the handshake's time, so
// that closing does not reset away what it was told.
func linger(c net.Conn) {
	_, _ = io.CopyN(io.Discard, c, 64<<10) // its end is what is waited for
}
