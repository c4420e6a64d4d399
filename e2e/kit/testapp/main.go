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

// config contains the values of the command-line flags.
type config struct {
	name, listen, records string
	storeURL              string // empty disables registers
	stateDir              string // empty disables hooks
	writeThrough          bool
	cacheDir              string // empty disables the cache
	reportsInstance       bool
	isEmbedded            bool
}

// parseFlags parses the command line. The arguments after the flags belong to the embedded node.
func parseFlags() (cfg config, nodeArgs []string) {
	flag.StringVar(&cfg.name, "name", "app", "name of the app, which is the name of its node")
	flag.StringVar(&cfg.listen, "listen", "127.0.0.1:0", "listen address")
	flag.StringVar(&cfg.records, "records", "", "file to which the app appends one JSON line for the start and the end of each request")
	flag.BoolVar(&cfg.isEmbedded, "embed", false, "run a node in this process, with the flags of shardway run after --")
	flag.StringVar(&cfg.storeURL, "store", "", "URL of the register store; empty disables registers")
	flag.StringVar(&cfg.stateDir, "state", "", "directory with the saved shards, shared by all apps; empty disables hooks")
	flag.BoolVar(&cfg.writeThrough, "through", false, "with --state, save each change immediately")
	flag.StringVar(&cfg.cacheDir, "cache", "", "directory with the cached counters, shared by all apps")
	flag.BoolVar(&cfg.reportsInstance, "instance", false, "identify this process in responses to /health")
	flag.Parse()
	return cfg, flag.Args()
}

// run runs the app until SIGTERM or SIGINT.
func run() error {
	cfg, nodeArgs := parseFlags()
	records, err := os.OpenFile(cfg.records, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("app: records: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.listen)
	if err != nil {
		return fmt.Errorf("app: %w", err)
	}
	testApp := newApp(cfg.name, records)
	if cfg.storeURL != "" {
		client := store.NewClient(cfg.storeURL)
		defer client.Close()
		testApp.registers = newRegisters(client)
	}
	if err = testApp.enableOptions(cfg); err != nil {
		return err
	}
	if cfg.isEmbedded {
		err = testApp.serveEmbedded(ctx, ln, nodeArgs)
	} else {
		err = testApp.serve(ctx, ln)
	}
	if err != nil {
		return err
	}
	return records.Close()
}

// enableOptions enables the hooks, the cache and the instance ID, if the flags require them.
func (a *app) enableOptions(cfg config) error {
	if cfg.stateDir != "" {
		a.state = newState(cfg.stateDir, cfg.writeThrough)
	}
	if cfg.reportsInstance {
		a.instanceID = fmt.Sprintf("%d at %d", os.Getpid(), time.Now().UnixNano())
	}
	if cfg.cacheDir != "" {
		if err := os.MkdirAll(cfg.cacheDir, 0o700); err != nil {
			return fmt.Errorf("app: cache: %w", err)
		}
		a.cache = newCache(cfg.cacheDir)
	}
	return nil
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
