package process

import (
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"shardway/config"
	"shardway/internal/execcommand"
	"shardway/node"
	"shardway/node/childproc"
)

// processLock is the name of the file in the data directory that is locked while processes of the app may run.
const processLock = "exec.lock"

// overdueExitCode is the exit code of a node that must end because a process of the app does not.
const overdueExitCode = 1

// applyExec sets the options of a node that starts the processes of the app itself. It does nothing without --exec.
func applyExec(conf *config.Config, options *node.Options, log zerolog.Logger) error {
	if conf.Exec == "" {
		return nil
	}
	command, err := execcommand.ParseCommand(conf.Exec)
	if err != nil {
		return err
	}
	per := childproc.PerKey
	if conf.ExecPer == config.ExecPerShard {
		per = childproc.PerShard
	}
	options.Processes = childproc.New(childproc.Options{
		Command: command, Per: per, Dir: conf.ExecDirectory(), ReadyPath: conf.ExecReady, Idle: conf.ExecIdle, Max: conf.ExecMax,
		StartTimeout: conf.AcquireTimeout, ReleaseTimeout: conf.ReleaseTimeout, LockFile: filepath.Join(conf.Data, processLock),
		Environ: os.Environ(), Node: options.Dir.Node(), ShowKeys: conf.AccessLogKeys, Log: log,
	})
	options.Hooks = options.Processes
	options.Overdue = func(why error) {
		log.Error().Err(why).Msg("node must end at once")
		os.Exit(overdueExitCode) //nolint:forbidigo // the guard then kills the processes
	}
	return nil
}
