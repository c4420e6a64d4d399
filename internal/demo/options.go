package demo

import (
	"io"
	"os"
	"strings"
	"time"
)

// Options configure the demo. The zero value is valid.
type Options struct {
	// Out receives the output. nil means standard output.
	Out io.Writer
	// Verbose also writes the logs of all processes to Out.
	Verbose bool
	// Progress, if not nil, is called during the start with the number of ready processes.
	Progress func(done, all int)
	// Args are added to the arguments of each node, such as --takeover immediate.
	Args []string
	// Command is the name of the program in the commands to try. Empty means the name with which this
	// process was started.
	Command string

	// Program is the binary of all processes. Empty means the binary of this process.
	Program string
	// Env is the environment of all processes. nil means the environment of this process without
	// SHARDWAY_ variables, so that they do not change the demo.
	Env []string
	// RestartAfter is the delay before an exited process restarts. Zero means 5 s.
	RestartAfter time.Duration
	// StartTimeout limits the start of the processes. Zero means 30 s.
	StartTimeout time.Duration
	// StopTimeout is the time after which processes that do not stop are killed. Zero means 10 s.
	StopTimeout time.Duration
}

// Defaults of Options.
const (
	defaultRestartAfter = 5 * time.Second
	defaultStartTimeout = 30 * time.Second
	defaultStopTimeout  = 10 * time.Second
)

// withDefaults replaces zero values by their defaults.
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
		for _, assignment := range os.Environ() {
			if !strings.HasPrefix(assignment, "SHARDWAY_") {
				o.Env = append(o.Env, assignment)
			}
		}
	}
	if o.RestartAfter == 0 {
		o.RestartAfter = defaultRestartAfter
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = defaultStartTimeout
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = defaultStopTimeout
	}
	return o, nil
}
