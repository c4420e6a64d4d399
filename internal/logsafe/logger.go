// Package logsafe makes the log of a node: JSON lines, or lines for people.
package logsafe

import (
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
)

// New returns a log that leaves nothing out.
func New(w io.Writer, console bool) zerolog.Logger {
	if !console {
		w = Harmless(w)
	} else {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000", NoColor: !Terminal(w)}
	}
	return zerolog.New(w).Hook(stamp{})
}

// Level returns the level of that name; of one that is unknown, info.
func Level(name string) zerolog.Level {
	level, err := zerolog.ParseLevel(name)
	if err != nil {
		return zerolog.InfoLevel
	}
	return level
}

// stamp gives each line its time, to the millisecond: zerolog's own hook writes
// whole seconds unless a variable of that package is changed for everybody.
type stamp struct{}

// Run adds the time.
func (stamp) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().Format("2006-01-02T15:04:05.000Z07:00"))
}

// Terminal reports whether a person reads w.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
