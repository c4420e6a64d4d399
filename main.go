// Command shardway is a sharded HTTP reverse proxy for apps that keep state.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"shardway/internal/cli"
	"shardway/internal/procguard"
)

func main() {
	if procguard.IsGuard() { // a node with --exec has started this process to run the processes of its app
		os.Exit(procguard.Main())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The second signal ends the process immediately.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
