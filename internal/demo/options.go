package demo

import (
	"io"
	"os"
	"strings"
	"time"
)

// Options is how to run the demo. The zero value is the ordinary demo.
type Options struct {
	// Out is told what goes on. Nil: standard output.
	Out io.Writer
	// Verbose shows the logs of all processes on Out too.
	Verbose bool
	// Progress, if set, is told how many of all processes serve, while they start.
	Progress func(done, all int)
	// Args are added to the arguments of each node, such as --takeover immediate.
	Args []string
	// Command is how the user calls the program, for the commands to try. Empty:
	// as this process was called.
	Command string

	// Program is the binary to run. Empty: this one.
	Program string
	// Env is the environment of every process. Nil: that of this process without
	// SHARDWAY_…, so that the demo is the same everywhere.
	Env []string
	// RestartAfter is how long a killed process stays dead. Zero: 5 s.
	RestartAfter time.Duration
	// StartTimeout bounds the wait until everything serves. Zero: 30 s.
	StartTimeout time.Duration
	// StopTimeout is how long the nodes may take to stop before they are killed.
	// Zero: 10 s.
	StopTimeout time.Duration
}

func (o Options) withDefaults() (Options, error) {
	if o.Out == nil {
		o.Out = os.Stdout
	}
	if o.Command == "" {
		o.Command = os.Args[0]
	}
	if o.Program == "" {
		self, err := os.Executable()
		if err != nil {
			return o, err
		}
		o.Program = self
	}
	if o.Env == nil {
		o.Env = []string{}
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "SHARDWAY_") {
				o.Env = append(o.Env, v)
			}
		}
	}
	if o.RestartAfter == 0 {
		o.RestartAfter = 5 * time.Second
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = 30 * time.Second
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = 10 * time.Second
	}
	return o, nil
}
