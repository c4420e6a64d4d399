package cli

import (
	"io"

	"github.com/rs/zerolog"

	"shardway/config"
	"shardway/internal/logsafe"
)

// logger returns the logger of a node. setLogLevel sets its level.
func logger(c *config.Config, w io.Writer) zerolog.Logger {
	return logsafe.New(w, c.LogFormat == config.LogConsole || c.LogFormat == config.LogAuto && isTerminal(w))
}

// setLogLevel sets the log level of the whole process, so that a reload affects all copies of the
// logger.
func setLogLevel(c *config.Config) { zerolog.SetGlobalLevel(logsafe.Level(c.LogLevel)) }

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool { return logsafe.Terminal(w) }
