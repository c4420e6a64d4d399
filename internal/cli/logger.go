package cli

import (
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"

	"shardway/config"
)

// logger returns the log of a node; setLevel says what it leaves out.
func logger(c *config.Config, w io.Writer) zerolog.Logger {
	console := c.LogFormat == config.LogConsole || c.LogFormat == config.LogAuto && terminal(w)
	if console {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000", NoColor: !terminal(w)}
	}
	return zerolog.New(w).Hook(stamp{})
}

// setLevel makes the level of c that of the whole process: copies of the log are
// everywhere, and a reload changes it for all. A config that was loaded knows it.
func setLevel(c *config.Config) {
	level, err := zerolog.ParseLevel(c.LogLevel)
	if err != nil {
		level = zerolog.InfoLevel
	}
	zerolog.SetGlobalLevel(level)
}

// stamp gives each line its time, to the millisecond: zerolog's own hook writes
// whole seconds unless a variable of that package is changed for everybody.
type stamp struct{}

// Run adds the time.
func (stamp) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().Format("2006-01-02T15:04:05.000Z07:00"))
}

// terminal reports whether a person reads w.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
