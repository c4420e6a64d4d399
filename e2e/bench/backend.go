//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/valyala/fasthttp"
)

// sizes of answers, in bytes. The path says which.
var sizes = []int{100, 10 << 10}

// serveBackend answers /SIZE with that many bytes, at as little cost as it can.
func serveBackend(ctx context.Context, addr string) error {
	bodies := make(map[string][]byte)
	for _, n := range sizes {
		bodies["/"+strconv.Itoa(n)] = bytes.Repeat([]byte("x"), n)
	}
	srv := &fasthttp.Server{
		Name: "backend",
		Handler: func(c *fasthttp.RequestCtx) {
			body, ok := bodies[string(c.Path())]
			if !ok {
				c.SetStatusCode(fasthttp.StatusNotFound)
			}
			c.SetContentType("text/plain")
			c.Response.SetBodyRaw(body)
		},
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("bench: backend: %w", err)
	}
	end := make(chan error, 1)
	go func() { end <- srv.Serve(ln) }()
	select {
	case err = <-end:
	case <-ctx.Done():
		err = ln.Close()
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("bench: backend: %w", err)
	}
	return nil
}
