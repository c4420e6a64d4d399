package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// healthPath is where the sample app says that it is up.
const healthPath = "/healthz"

// RunApp serves a new App on an address until ctx ends, then lets what runs
// finish for up to 5 s. It writes one line to out once it listens.
func RunApp(ctx context.Context, addr string, out io.Writer) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("demo app: %w: choose another address with --listen", err)
	}
	srv := &http.Server{Handler: &App{}, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute}
	if _, err := fmt.Fprintf(out, "demo app listening on http://%s\n", ln.Addr()); err != nil {
		return errors.Join(err, ln.Close())
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if srv.Shutdown(stopping) != nil {
		// The stragglers had their time; Close fails only on a closed listener.
		_ = srv.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
