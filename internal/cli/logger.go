package cli

import (
	"io"

	"github.com/rs/zerolog"

	"shardway/config"
	"shardway/internal/logsafe"
)

// logger returns the log of a node; setLevel says what it leaves out.
func logger(c *config.Config, w io.Writer) zerolog.Logger {
	return logsafe.New(w, c.LogFormat == config.LogConsole || c.LogFormat == config.LogAuto && terminal(w))
}

// setLevel makes the level of c that of the whole process: copies of the log are
// everywhere, and a reload changes it for all. A config that was loaded knows it.
func setLevel(c *config.Config) { zerolog.SetGlobalLevel(logsafe.Level(c.LogLevel)) }

// terminal reports whether a person reads w.
func terminal(w io.Writer) bool { return logsafe.Terminal(w) }
