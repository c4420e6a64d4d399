package proxy

import (
	"errors"
	"net"
	"syscall"
)

// unreachableReason returns the reason why a connection could not be established or used, without
// addresses, because a client may see it. The complete error is logged.
func (s *Server) unreachableReason(err error) string {
	s.options.Log.Debug().Err(err).Msg("not reached")
	var errno syscall.Errno
	var network net.Error
	switch {
	case errors.Is(err, errDialing):
		return "no connection was made in time"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &network) && network.Timeout():
		return "timed out"
	}
	return "no connection"
}
