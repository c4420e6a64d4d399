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
	"shardway/internal/memory"
	"shardway/internal/processors"
	"shardway/internal/sdnotify"
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
	log := logger(&cfg, s.err)
	setLevel(&cfg)
	memory.Limit(log)
	p, err := process.New(ctx, &cfg, Version, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	told := &supervised{manager: sdnotify.New(s.environ), node: p.Node(), log: log}
	var telling sync.WaitGroup
	defer telling.Wait()
	defer cancel()
	telling.Go(func() { told.run(ctx) })
	for _, mind := range minders(s.environ) {
		telling.Go(func() { mind.run(ctx, p, log) })
	}
	//nolint:contextcheck // what a reload starts ends with the process
	stop := onHangup(func() { told.reload(func() { c.reload(s, p, log) }) })
	defer stop()
	return p.Run(ctx)
}

// minder looks after the process while it runs, unless the environment has told the Go runtime
// what to do.
type minder struct {
	unless string // the variable that does
	run    func(ctx context.Context, p *process.Process, log zerolog.Logger)
}

// minders return those that an environment leaves.
func minders(environ []string) []minder {
	all := []minder{
		{"GOMAXPROCS", func(ctx context.Context, p *process.Process, log zerolog.Logger) {
			processors.Run(ctx, p.Node().Pulse(), log)
		}},
		{"GOGC", func(ctx context.Context, p *process.Process, log zerolog.Logger) { // how much garbage there may be
			memory.Run(ctx, p.Node().Pulse(), log)
		}},
	}
	return slices.DeleteFunc(all, func(m minder) bool { return variable(environ, m.unless) != "" })
}

// reload reads the settings again from where they came, and gives them to the
// process. What is wrong with them changes nothing.
func (c *runCommand) reload(s *session, p *process.Process, log zerolog.Logger) {
	next, err := config.Load(c.Args, s.environ, os.ReadFile)
	if err == nil {
		err = p.Reload(&next)
	} else {
		p.NotReloaded(err)
	}
	if err != nil {
		log.Error().Err(err).Msg("settings not reloaded, old settings stay")
		return
	}
	setLevel(&next)
}

// onHangup calls f, one call after the other, for each SIGHUP until stop is
// called. Those that come while it runs count as one.
func onHangup(f func()) (stop func()) {
	signals, ended := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		defer close(ended)
		for range signals {
			f()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-ended
	}
}

func runHelp(w io.Writer) error {
	return settingsHelp(w, `Usage: shardway run [flags]

Runs a node: a proxy in front of one instance of the app, and a member of the cluster.
On SIGTERM or Ctrl-C the node hands its shards over, finishes its requests and leaves the
cluster; a second signal stops it immediately. On SIGHUP it reloads its settings. The exit
code is 1 if the node failed, and 2 if the configuration is invalid.
`)
}
