package cli

import (
	"context"
	"errors"
	"io"
	"os"

	"shardway/config"
	"shardway/node/process"
)

type runCommand struct {
	Args []string `arg:"" help:"See shardway run --help." optional:""`
}

// Run runs a node until ctx ends and it has left, or until it cannot go on.
func (c *runCommand) Run(ctx context.Context, s *session) error {
	cfg, err := config.Load(c.Args, s.environ, os.ReadFile)
	if errors.Is(err, config.ErrHelp) {
		return runHelp(s.out)
	}
	if err != nil {
		return err
	}
	p, err := process.New(ctx, &cfg, Version, logger(&cfg, s.err))
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

func runHelp(w io.Writer) error {
	return settingsHelp(w, `Usage: shardway run [flags]

Runs a node: the proxy in front of one copy of the app, and its part of the
cluster. SIGTERM or Ctrl-C makes it hand its shards over, finish and leave; a second
one ends it at once. The exit code is 1 when the node failed and 2 when the
configuration is wrong.
`)
}
