package peer

import (
	"errors"
	"net"
)

// refuse tells the dialer why not. The answer fits any socket's buffer, and
// the dialer has sent nothing beyond its preface, so the close that follows
// does not reset it away.
func (s *server) refuse(c net.Conn, re *RefusedError, from string) {
	s.p.counts.refused.Add(1)
	if s.p.quiet.fresh(re.Reason) {
		s.p.o.Log.Warn().Str("peer", from).Stringer("addr", c.RemoteAddr()).
			Stringer("check", re.Code).Str("reason", re.Reason).Msg("peer stream refused")
	}
	if _, err := c.Write(encodeRefused(re)); err != nil {
		return
	}
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
	}
}

// unreadable answers what could not be understood, if it began as ours.
func (s *server) unreadable(c net.Conn, err error) {
	var re *RefusedError
	switch {
	case errors.As(err, &re):
		s.refuse(c, re, "")
	case errors.Is(err, errMalformed):
		s.refuse(c, refuse(RefusedMalformed, "%v", err), "")
	default:
		s.broken(c, err)
	}
}

// broken notes a connection that nobody waits on. Port scans and dying peers
// are daily business: debug.
func (s *server) broken(c net.Conn, err error) {
	s.p.counts.broken.Add(1)
	s.p.o.Log.Debug().Stringer("addr", c.RemoteAddr()).Err(err).Msg("peer preface broke")
}
