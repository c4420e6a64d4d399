package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/rs/zerolog"

	"shardway/admin/localsock"
)

// listeners are the TCP ports of a node, except the gossip port, which package gossip opens.
type listeners struct {
	app, peer, admin net.Listener
	probes           net.Listener // nil means no probe port
}

// listen opens the port at addr. flag is the name of its flag for error messages.
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

// listenLocal opens the socket in the data directory. If this fails, it logs a warning and returns
// nil, because the node works without it.
func listenLocal(ctx context.Context, data string, log zerolog.Logger) net.Listener {
	ln, err := localsock.Listen(ctx, data)
	if err != nil {
		log.Warn().Err(err).Str("effect", "`shardway drain --local` does not reach this node").Msg("local admin socket not created")
		return nil
	}
	return ln
}

// closeIfOpen closes ln unless it is nil.
func closeIfOpen(ln net.Listener) error {
	if ln == nil {
		return nil
	}
	return ln.Close()
}

// close closes the open ports. It ignores errors, because no connection was served yet.
func (l *listeners) close() {
	for _, ln := range []net.Listener{l.app, l.peer, l.admin, l.probes} {
		if ln != nil {
			_ = ln.Close()
		}
	}
}
