package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
)

// refuse sends the reason to the dialer. The response fits into any socket buffer, and the dialer
// has sent nothing after its hello. The close that follows therefore does not reset the connection
// before the dialer has read the response.
func (s *server) refuse(c net.Conn, re *RefusedError, from string) {
	s.p.counts.refused.Add(1)
	if s.p.logLimiter.allow(c.RemoteAddr(), &s.p.options, re.Reason) {
		s.p.options.Log.Warn().Str("peer", from).Stringer("addr", c.RemoteAddr()).
			Stringer("check", re.Code).Str("reason", truncate(re.Reason)).Int("left_out", s.p.logLimiter.takeSuppressed()).Msg("peer stream refused")
	}
	if _, err := c.Write(encodeRefused(re)); err != nil {
		return
	}
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
	}
}

// rejectHello responds to a hello that could not be read, if it began with the right magic.
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

// countBroken counts a connection that gets no response. Port scans and crashing peers are common,
// so it logs at debug level.
func (s *server) countBroken(c net.Conn, err error) {
	s.p.counts.broken.Add(1)
	s.p.options.Log.Debug().Stringer("addr", c.RemoteAddr()).Err(err).Msg("peer preface incomplete")
}

// Reasons of RefusedSeal: only one side uses TLS.
const (
	reasonNoTLSHere   = "the other node uses TLS and this node does not: start both with the same secret (--secret-file), or both without"
	reasonTLSRequired = "this node requires TLS and the other node does not use it: start that node with the secret of the cluster (--secret-file)"
	reasonNoTLSThere  = "it does not use TLS and this node does: start it with the secret of the cluster (--secret-file)"
)

// rejectTLS handles a failed TLS handshake. A dialer without TLS gets a response without TLS.
func (s *server) rejectTLS(c net.Conn, err error) {
	var th tls.RecordHeaderError
	var ne net.Error
	switch {
	case errors.As(err, &th) && string(th.RecordHeader[:len(magic)]) == magic:
		s.refuse(c, refuse(RefusedSeal, "%s", reasonTLSRequired), "")
		linger(c)
	case errors.As(err, &th), errors.As(err, &ne), errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		s.countBroken(c, err) // a port scan, or the dialer has left
	default:
		s.p.counts.refused.Add(1)
		if s.p.logLimiter.allow(c.RemoteAddr(), &s.p.options, err.Error()) {
			s.p.options.Log.Warn().Stringer("addr", c.RemoteAddr()).Str("error", truncate(err.Error())).Int("left_out", s.p.logLimiter.takeSuppressed()).Msg("peer refused")
		}
	}
}

// linger reads data of the other side until the handshake deadline. An earlier close could reset
// the connection before the other side has read the response.
func linger(c net.Conn) {
	_, _ = io.CopyN(io.Discard, c, 64<<10) // until the other side closes
}
