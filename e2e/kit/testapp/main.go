//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"shardway/e2e/kit/store"
	"shardway/embed"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // this is the main function of a separate program
	}
}

func run() error {
	name := flag.String("name", "app", "name of the app, which is the name of its node")
	listen := flag.String("listen", "127.0.0.1:0", "listen address")
	records := flag.String("records", "", "file to which the app appends one JSON line for the start and the end of each request")
	embedded := flag.Bool("embed", false, "run a node in this process, with the flags of shardway run after --")
	storeURL := flag.String("store", "", "URL of the register store; empty disables registers")
	stateDir := flag.String("state", "", "directory with the saved shards, shared by all apps; empty disables hooks")
	through := flag.Bool("through", false, "with --state, save each change immediately")
	cacheDir := flag.String("cache", "", "directory with the cached counters, shared by all apps")
	instance := flag.Bool("instance", false, "identify this process in responses to /health")
	flag.Parse()
	file, err := os.OpenFile(*records, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("app: records: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
	if err != nil {
		return fmt.Errorf("app: %w", err)
	}
	a := newApp(*name, file)
	if *storeURL != "" {
		client := store.NewClient(*storeURL)
		defer client.Close()
		a.registers = newRegisters(client)
	}
	if *stateDir != "" {
		a.state = newState(*stateDir, *through)
	}
	if *instance {
		a.instanceID = fmt.Sprintf("%d at %d", os.Getpid(), time.Now().UnixNano())
	}
	if *cacheDir != "" {
		if err := os.MkdirAll(*cacheDir, 0o700); err != nil {
			return fmt.Errorf("app: cache: %w", err)
		}
		a.cache = newCache(*cacheDir)
	}
	serve := func(ctx context.Context) error { return a.serve(ctx, ln) }
	if *embedded {
		serve = func(ctx context.Context) error { return a.serveEmbedded(ctx, ln, flag.Args()) }
	}
	if err := serve(ctx); err != nil {
		return err
	}
	return file.Close()
}

// serve handles requests on ln until ctx ends.
func (a *app) serve(ctx context.Context, ln net.Listener) error {
	a.listener = newListener(ln)
	srv := &http.Server{Handler: a, ReadHeaderTimeout: time.Minute, ConnState: a.listener.track}
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		_ = srv.Close()
	}()
	if err := srv.Serve(a.listener); err != http.ErrServerClosed {
		return fmt.Errorf("app: %w", err)
	}
	<-done
	return nil
}

// serveEmbedded runs a node with this app as its handler until ctx ends. It serves control
// requests on ln until the node has stopped.
func (a *app) serveEmbedded(ctx context.Context, ln net.Listener, args []string) error {
	node, err := embed.New(embed.Config{Args: args, Handler: embed.HTTP(a)}) //nolint:contextcheck // New takes no context; Run does
	if err != nil {
		return err
	}
	controlCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- a.serve(controlCtx, ln) }()
	err = node.Run(ctx)
	stop()
	return errors.Join(err, <-served)
}
