//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"shardway/embed"
)

// Sizes of responses in bytes. The request path selects one of them.
const (
	smallBody  = 100
	mediumBody = 10 << 10
	largeBody  = 1 << 20
)

// serveBackend serves the handler of newHandler at every address of a comma-separated list, until ctx
// ends.
func serveBackend(ctx context.Context, addrs string) error {
	srv := &fasthttp.Server{Name: "backend", Handler: newHandler(), MaxRequestBodySize: 2 * streamBody}
	ends := make(chan error, strings.Count(addrs, ",")+1) // one result per listener
	for addr := range strings.SplitSeq(addrs, ",") {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
		if err != nil {
			return fmt.Errorf("bench: backend: %w", err)
		}
		go func() { ends <- srv.Serve(ln) }()
	}
	select {
	case err := <-ends:
		return fmt.Errorf("bench: backend: %w", err)
	case <-ctx.Done():
		return nil
	}
}

// newHandler returns the handler of the backend, and of the app in a node. It responds to
// /SIZE or /SIZE/N with SIZE bytes, at the lowest possible cost. N only makes paths
// distinct.
func newHandler() fasthttp.RequestHandler {
	bodies := make(map[string][]byte)
	for _, n := range []int{smallBody, mediumBody, largeBody, streamBody} {
		bodies["/"+strconv.Itoa(n)] = bytes.Repeat([]byte("x"), n)
	}
	return func(ctx *fasthttp.RequestCtx) {
		path := ctx.Path()
		if i := bytes.LastIndexByte(path, '/'); i > 0 {
			path = path[:i]
		}
		body, ok := bodies[string(path)]
		if !ok {
			ctx.SetStatusCode(fasthttp.StatusNotFound)
		}
		ctx.SetContentType("text/plain")
		ctx.Response.SetBodyRaw(body)
	}
}

// serveEmbedded runs a node with the handler of the backend in its process.
func serveEmbedded(ctx context.Context, args []string) error {
	node, err := embed.New(embed.Config{Args: args, Handler: newHandler()}) //nolint:contextcheck // Run has it
	if err != nil {
		return err
	}
	return node.Run(ctx)
}
