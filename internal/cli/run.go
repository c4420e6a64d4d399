package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/rs/zerolog"

	"shardway/config"
	"shardway/internal/logsafe"
	"shardway/internal/memory"
	"shardway/internal/processors"
	"shardway/internal/sdnotify"
	"shardway/node/process"
)

type runCommand struct {
	Args []string `arg:"" help:"See shardway run --help." optional:""`
}

// Run runs a node until ctx ends and the node has left the cluster, or until the node fails.
func (c *runCommand) Run(ctx context.Context, session *session) error {
	cfg, err := config.Load(c.Args, session.environ, os.ReadFile)
	if errors.Is(err, config.ErrHelp) {
		return runHelp(session.out)
	}
	if err != nil {
		return err
	}
	log := logger(&cfg, session.err)
	setLogLevel(&cfg)
	memory.Limit(log)
	proc, err := process.New(ctx, &cfg, Version, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	supervisor := &supervisor{manager: sdnotify.New(session.environ), node: proc.Node(), log: log}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { supervisor.run(ctx) })
	for _, tuner := range runtimeTuners(session.environ) {
		wg.Go(func() { tuner.run(ctx, proc, log) })
	}
	//nolint:contextcheck // goroutines of a reload end with the process
	stop := onSIGHUP(func() { supervisor.reload(func() { c.reload(session, proc, log) }) })
	defer stop()
	return proc.Run(ctx)
}

// runtimeTuner adjusts a parameter of the Go runtime while the process runs, unless an environment
// variable sets the parameter.
type runtimeTuner struct {
	variable string // environment variable that disables the tuner
	run      func(ctx context.Context, p *process.Process, log zerolog.Logger)
}

// runtimeTuners returns the tuners that environ does not disable.
func runtimeTuners(environ []string) []runtimeTuner {
	all := []runtimeTuner{
		{"GOMAXPROCS", func(ctx context.Context, proc *process.Process, log zerolog.Logger) {
			processors.Run(ctx, proc.Node().Scheduler(), log)
		}},
		{"GOGC", func(ctx context.Context, proc *process.Process, log zerolog.Logger) {
			memory.Run(ctx, proc.Node().Scheduler(), log)
		}},
	}
	return slices.DeleteFunc(all, func(tuner runtimeTuner) bool { return variable(environ, tuner.variable) != "" })
}

// reload loads the settings again from the same sources and applies them. Invalid settings have no
// effect except an error in the log.
func (c *runCommand) reload(session *session, proc *process.Process, log zerolog.Logger) {
	next, err := config.Load(c.Args, session.environ, os.ReadFile)
	if err == nil {
		err = proc.Reload(&next)
	} else {
		proc.RecordReloadFailure(err)
	}
	if err != nil {
		log.Error().Err(err).Msg("settings not reloaded, old settings stay")
		return
	}
	setLogLevel(&next)
}

// onSIGHUP calls onSignal for each SIGHUP until stop is called. Calls do not overlap: signals that arrive
// during a call cause one further call. stop waits for a running call.
func onSIGHUP(onSignal func()) (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		defer close(done)
		for range signals {
			onSignal()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

// runHelp writes the help of run with all flags.
func runHelp(w io.Writer) error {
	return settingsHelp(w, `Usage: shardway run [flags]

Runs a node: a proxy in front of one instance of the app, and a member of the cluster.
On SIGTERM or Ctrl-C the node hands its shards over, finishes its requests and leaves the
cluster; a second signal stops it immediately. On SIGHUP it reloads its settings. The exit
code is 1 if the node failed, and 2 if the configuration is invalid.
`)
}

// logger returns the logger of a node. setLogLevel sets its level.
func logger(cfg *config.Config, w io.Writer) zerolog.Logger {
	return logsafe.New(w, cfg.LogFormat == config.LogConsole || cfg.LogFormat == config.LogAuto && isTerminal(w))
}

// setLogLevel sets the log level of the whole process, so that a reload affects all copies of the
// logger.
func setLogLevel(cfg *config.Config) { zerolog.SetGlobalLevel(logsafe.Level(cfg.LogLevel)) }

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool { return logsafe.IsTerminal(w) }
