// Package logsafe creates the logger of a node. It writes JSON lines, or readable lines for
// a console, and escapes characters that control a terminal. OneLine does the same for text shown elsewhere.
package logsafe

import (
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
)

// New returns a logger without a level filter.
func New(w io.Writer, console bool) zerolog.Logger {
	if !console {
		w = NewEscaper(w)
	} else {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000", NoColor: !IsTerminal(w)}
	}
	return zerolog.New(w).Hook(timestampHook{})
}

// Level returns the level with the given name, or info if the name is unknown.
func Level(name string) zerolog.Level {
	level, err := zerolog.ParseLevel(name)
	if err != nil {
		return zerolog.InfoLevel
	}
	return level
}

// timestampHook adds the time to each line in milliseconds. zerolog's own hook writes whole seconds unless a global
// variable of that package is changed.
type timestampHook struct{}

// Run adds the time to an event.
func (timestampHook) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().Format("2006-01-02T15:04:05.000Z07:00"))
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
