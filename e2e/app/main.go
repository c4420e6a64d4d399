//go:build linux

// Command app is the app behind each node of an e2e test. It records every
// request that reaches it, on the clock of history.Now, into a file of its own:
// what it saw outlives the node, the test and the app itself.
//
// A request says in its headers how it wants to be treated:
//
//	App-Id        the client's id of the request; comes back in the answer
//	App-Delay     wait that long before the answer (a Go duration)
//	App-Hang      wait for POST /release?name=… with this name
//	App-Chunks    answer in that many chunks, App-Delay before each
//	App-Size      answer with a body of that many bytes
//	App-Die       kill the app: "before" or "amid" the answer
//	App-Register  work on the key's register: "memory", "store" or "unfenced"
//	App-Late      wait that long before the register is touched
//	App-Events    answer with an event stream, an event that often, until the client leaves
//	App-Feed      the same, of events that any app can go on with, behind Last-Event-ID
//	App-Heed      ask whether the request is over right before the register is touched:
//	              its "context", or the "node" in this process
//
// The answer is JSON (app, id, key, shard, epoch, count), padded with spaces to
// App-Size; App-Name, App-Id and App-Count are in its head too.
//
// With --store each key has a register. POST writes the body (1 to 64 printable
// bytes) through to the store, under the epoch of the request, before it answers;
// GET reads, and App-Value in the answer is what it read: from the store, or from
// the app's memory, which has a value of its own for each ownership epoch, loaded
// from the store when first touched. The store refuses epochs older than the
// newest that it has seen for the shard: the answer is 409 then, its error is
// "fenced", and nothing was done. An unfenced register is kept as one in memory is, in
// a store that knows no epochs. 503 says that the store did not answer: what was
// written may be there, now or later.
//
// With --state DIR the app keeps a counter for each key in memory while it holds the
// key's shard, and App-Count is what it says: POSTs raise it, others read it. Its hooks,
// below /_state/, load a shard from the directory and write it there; --through writes
// with each POST. It answers 421 for what it has not acquired. POST /ill?hook=H&how=…
// makes a hook ill (see hooks.go), GET /told lists what it was told, POST /flush writes
// all that it holds.
//
// With --cache DIR a POST raises a counter of its key, which the app loads from the directory
// when it is first asked for the key, caches, and writes there with each POST. There are no
// hooks, and App-Count is what it says. POST /forget drops what is cached.
//
// POST /close-port?for=2s closes the port for that long, and with all=true the connections, too;
// the process goes on with what it has cached. With --instance the responses to /health name
// the process.
//
// Requests without a Shardway-Shard header do not come through a node: they
// control the app. GET /records lists the runs, GET /executions?id=… counts
// those of one request, POST /release?name=… frees what hangs under that name,
// now and later; GET /hanging?name=… counts it.
//
// With --embed it is the app in the process of a node: what follows -- are flags of
// shardway run, requests come by the node, and --listen is for control alone.
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

	"shardway/e2e/store"
	"shardway/embed"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // a program of its own
	}
}

func run() error {
	name := flag.String("name", "app", "name of the app: the node it stands behind")
	listen := flag.String("listen", "127.0.0.1:0", "address to serve at")
	records := flag.String("records", "", "file to append the runs to")
	within := flag.Bool("embed", false, "run a node in this process, with the flags of shardway run that follow --")
	storeURL := flag.String("store", "", "URL of the store behind the registers; without it there are none")
	stateDir := flag.String("state", "", "directory that all apps share for what they keep of their shards; without it there are no hooks")
	through := flag.Bool("through", false, "with --state, write at each change")
	cacheDir := flag.String("cache", "", "directory that all apps share for the counters that they cache")
	named := flag.Bool("instance", false, "name this process in the responses to /health")
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
	if *named {
		a.instance = fmt.Sprintf("%d at %d", os.Getpid(), time.Now().UnixNano())
	}
	if *cacheDir != "" {
		if err := os.MkdirAll(*cacheDir, 0o700); err != nil {
			return fmt.Errorf("app: cache: %w", err)
		}
		a.cache = newCache(*cacheDir)
	}
	serve := func(ctx context.Context) error { return a.serve(ctx, ln) }
	if *within {
		serve = func(ctx context.Context) error { return a.serveEmbedded(ctx, ln, flag.Args()) }
	}
	if err := serve(ctx); err != nil {
		return err
	}
	return file.Close()
}

// serve answers at ln until ctx ends.
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

// within runs a node whose app it is, and is controlled at ln.
func (a *app) serveEmbedded(ctx context.Context, ln net.Listener, args []string) error {
	n, err := embed.New(embed.Config{Args: args, Handler: embed.HTTP(a)}) //nolint:contextcheck // Run has it
	if err != nil {
		return err
	}
	controlled, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- a.serve(controlled, ln) }()
	err = n.Run(ctx)
	stop()
	return errors.Join(err, <-ended)
}
