package childproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"shardway/internal/procguard"
)

const (
	minReadyPause = 10 * time.Millisecond
	maxReadyPause = 200 * time.Millisecond
	// readyTimeout limits one attempt to find out whether a process is ready.
	readyTimeout = 2 * time.Second
)

// errForeignListener is the error of a process whose port was taken by another program.
var errForeignListener = errors.New("another program listens at the port of the process")

// awaitReady waits until a process is ready. It also returns nil if the process is stopped before
// that.
func (s *Supervisor) awaitReady(ctx context.Context, p *process) error {
	transport := &http.Transport{DisableKeepAlives: true, Proxy: nil, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", p.addr.String())
	}}
	pause := minReadyPause
	var last error
	for {
		if last = s.checkReady(ctx, p, transport); last == nil || errors.Is(last, errForeignListener) {
			return last
		}
		select {
		case <-p.ready: // stopped
			return nil
		case <-p.ended:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("it was not ready within %v: %w", s.options.StartTimeout, last)
		case <-time.After(pause):
			pause = min(pause*2, maxReadyPause)
		}
	}
}

// checkReady reports whether a process is ready.
func (s *Supervisor) checkReady(ctx context.Context, p *process, transport http.RoundTripper) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.addr.String())
	if err != nil {
		return err
	}
	_ = conn.Close()
	switch owner := procguard.ListenerOwner(p.pid, p.addr.Port()); owner {
	case procguard.ListenerForeign:
		return errForeignListener
	case procguard.ListenerOwn, procguard.ListenerUnknown:
	}
	if s.options.ReadyPath == "" {
		return nil
	}
	path := strings.ReplaceAll(s.options.ReadyPath, "{key}", url.PathEscape(p.target.Key))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr.String()+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "shardway-health")
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("GET %s has status %d", path, response.StatusCode)
	}
	return nil
}
