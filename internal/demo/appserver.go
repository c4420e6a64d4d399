package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// healthPath is the path of the health check of the sample app.
const healthPath = "/healthz"

// appShutdownTimeout limits the wait for running requests when the sample app stops.
const appShutdownTimeout = 5 * time.Second

// RunApp serves a new App on an address until ctx ends. It then waits up to 5 s for running requests. The
// app stores its state in dir, which is created if necessary. RunApp writes one line to out once it
// listens.
func RunApp(ctx context.Context, addr, dir string, out io.Writer) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("demo app: %w: choose another address with --listen", err)
	}
	srv := &fasthttp.Server{
		Handler: NewApp(dir).Serve, ReadTimeout: time.Minute, IdleTimeout: 5 * time.Minute,
		NoDefaultServerHeader: true, CloseOnShutdown: true, SecureErrorLogMessage: true,
	}
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
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), appShutdownTimeout)
	defer cancel()
	if srv.ShutdownWithContext(stopping) != nil {
		return nil // the remaining requests end with the process
	}
	return <-done
}
