package cli

import (
	"context"
	"fmt"
	"os"

	"shardway/config"
	"shardway/internal/demo"
)

type demoCommand struct {
	Verbose bool     `help:"Show the logs of all processes." short:"v"`
	Args    []string `arg:""                                 help:"Flags of run for every node, after two dashes, such as -- --takeover immediate." optional:"" passthrough:""`
}

// Run runs the demo until ctx ends.
func (c *demoCommand) Run(ctx context.Context, session *session) error {
	args := c.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	// Without this check, each of the three nodes would report the same error.
	if _, err := config.Load(args, nil, os.ReadFile); err != nil {
		return err
	}
	options := demo.Options{Out: session.out, Verbose: c.Verbose, Args: args}
	if isTerminal(session.out) && !c.Verbose {
		progress := progress{w: session.out, inPlace: true}
		options.Progress = func(done, all int) {
			_ = progress.part(done, all, fmt.Sprintf("%d of %d processes serve", done, all)) // an error only means that the terminal is gone
			if done == all {
				progress.end()
			}
		}
	}
	return demo.Run(ctx, options)
}

type demoAppCommand struct {
	Listen string `default:"127.0.0.1:9001" help:"Address to listen on." placeholder:"ADDR"`
	State  string `help:"Directory shared by all app instances, for their counters." placeholder:"DIR" required:""`
}

// Run runs the sample app alone until ctx ends.
func (c *demoAppCommand) Run(ctx context.Context, session *session) error {
	return demo.RunApp(ctx, c.Listen, c.State, session.out)
}
