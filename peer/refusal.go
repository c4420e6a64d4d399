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
func (s *server) refuse(conn net.Conn, refusal *RefusedError, dialer string) {
	s.port.counts.refused.Add(1)
	if s.port.logLimiter.allow(conn.RemoteAddr(), &s.port.options, refusal.Reason) {
		s.port.options.Log.Warn().Str("peer", dialer).Stringer("addr", conn.RemoteAddr()).
			Stringer("check", refusal.Code).Str("reason", truncate(refusal.Reason)).Int("suppressed", s.port.logLimiter.takeSuppressed()).Msg("peer stream refused")
	}
	if _, err := conn.Write(encodeRefused(refusal)); err != nil {
		return
	}
	if halfCloser, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = halfCloser.CloseWrite()
	}
}

// rejectHello responds to a hello that could not be read, if it began with the right magic.
func (s *server) rejectHello(conn net.Conn, err error) {
	var refusal *RefusedError
	switch {
	case errors.Is(err, errUnexpectedTLS):
		s.refuse(conn, newRefusal(RefusedTLSMismatch, "%s", reasonNoTLSHere), "")
		discardUntilClosed(conn)
	case errors.As(err, &refusal):
		s.refuse(conn, refusal, "")
	case errors.Is(err, errMalformed):
		s.refuse(conn, newRefusal(RefusedMalformed, "%v", err), "")
	default:
		s.countFailedHandshake(conn, err)
	}
}

// countFailedHandshake counts a connection that gets no response. Port scans and crashing peers are common,
// so it logs at debug level.
func (s *server) countFailedHandshake(conn net.Conn, err error) {
	s.port.counts.failedHandshakes.Add(1)
	s.port.options.Log.Debug().Stringer("addr", conn.RemoteAddr()).Err(err).Msg("peer preface incomplete")
}

// Reasons of RefusedTLSMismatch: only one side uses TLS.
const (
	reasonNoTLSHere   = "the other node uses TLS and this node does not: start both with the same secret (--secret-file), or both without"
	reasonTLSRequired = "this node requires TLS and the other node does not use it: start that node with the secret of the cluster (--secret-file)"
	reasonNoTLSThere  = "it does not use TLS and this node does: start it with the secret of the cluster (--secret-file)"
)

// rejectTLS handles a failed TLS handshake. A dialer without TLS gets a response without TLS.
func (s *server) rejectTLS(conn net.Conn, err error) {
	if isPeerProtocolWithoutTLS(err) {
		s.refuse(conn, newRefusal(RefusedTLSMismatch, "%s", reasonTLSRequired), "")
		discardUntilClosed(conn)
		return
	}
	if isConnectionFailure(err) {
		s.countFailedHandshake(conn, err) // a port scan, or the dialer has left
		return
	}
	s.port.counts.refused.Add(1)
	if s.port.logLimiter.allow(conn.RemoteAddr(), &s.port.options, err.Error()) {
		s.port.options.Log.Warn().Stringer("addr", conn.RemoteAddr()).Str("error", truncate(err.Error())).Int("suppressed", s.port.logLimiter.takeSuppressed()).Msg("peer refused")
	}
}

// isConnectionFailure reports whether a TLS handshake failed because the connection broke or does not
// carry TLS, and not because a certificate was rejected.
func isConnectionFailure(err error) bool {
	var recordErr tls.RecordHeaderError
	var netErr net.Error
	if errors.As(err, &recordErr) || errors.As(err, &netErr) {
		return true
	}
	hasEnded := errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
	timedOut := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	return hasEnded || timedOut
}

// discardUntilClosed discards up to 64 KiB from the other side, until it closes the connection or the handshake
// deadline passes. An earlier close could reset the connection before the other side has read the response.
func discardUntilClosed(conn net.Conn) {
	_, _ = io.CopyN(io.Discard, conn, 64<<10)
}
