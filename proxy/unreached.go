package proxy

import (
	"errors"
	"net"
	"syscall"
)

// unreached says why a connection could not be made or used, in words that tell a
// client nothing of where: addresses are for the log.
func (s *Server) unreached(err error) string {
	s.o.Log.Debug().Err(err).Msg("not reached")
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
