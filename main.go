// Command shardway is a sharded HTTP reverse proxy for apps that keep state.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"shardway/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Who asks twice does not want to wait: the second signal ends the process.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
