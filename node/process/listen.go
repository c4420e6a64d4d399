package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/rs/zerolog"

	"shardway/admin"
)

// listeners are the TCP ports of a node but gossip's, which opens its own two.
type listeners struct {
	app, peer, admin net.Listener
	probes           net.Listener // nil: none
}

// listen opens the address that a setting names.
func listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	lc := net.ListenConfig{}
	inheritKeepAlive(&lc)
	ln, err := lc.Listen(ctx, "tcp", addr)
	switch {
	case err == nil:
		return ln, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is taken by another process: stop it, or choose another address with --%s", addr, flag)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("this user may not listen on %s: choose a port above 1023 with --%s", addr, flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s is not an address of this machine: choose another with --%s", addr, flag)
	}
	return nil, fmt.Errorf("listen on %s (--%s): %w", addr, flag, err)
}

// listenSelf opens the socket in the data directory. Without it the node does all that
// it is for: nil, and a warning.
func listenSelf(ctx context.Context, data string, log zerolog.Logger) net.Listener {
	ln, err := admin.ListenLocal(ctx, data)
	if err != nil {
		log.Warn().Err(err).Msg("no socket in the data directory: `shardway drain --self` does not reach this node")
		return nil
	}
	return ln
}

func closeSelf(ln net.Listener) error {
	if ln == nil {
		return nil
	}
	return ln.Close()
}

// close closes what was opened. The errors say nothing to anybody: nothing was
// served yet.
func (l *listeners) close() {
	for _, ln := range []net.Listener{l.app, l.peer, l.admin, l.probes} {
		if ln != nil {
			_ = ln.Close()
		}
	}
}
