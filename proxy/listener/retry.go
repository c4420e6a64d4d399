package listener

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/rs/zerolog"
)

// AcceptRetry accepts the next connection, like Accept. If file descriptors or memory are exhausted, it
// calls freeResources, waits and retries, until ctx ends.
func (a *Acceptor) AcceptRetry(ctx context.Context, stopped func() bool, log zerolog.Logger, freeResources func()) (net.Conn, error) {
	const minPause, maxPause = 5 * time.Millisecond, time.Second
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		conn, err := a.Accept(stopped)
		if err == nil {
			if pause > minPause {
				log.Info().Msg("accepting resumed")
			}
			return conn, nil
		}
		if !isTemporary(err) || stopped() {
			return nil, err
		}
		if pause == minPause {
			log.Warn().Err(err).Msg("accepting paused")
		}
		freeResources()
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// isTemporary reports whether Accept may succeed again later.
func isTemporary(err error) bool {
	var temporary interface{ Temporary() bool }
	return !errors.Is(err, net.ErrClosed) && errors.As(err, &temporary) && temporary.Temporary()
}
