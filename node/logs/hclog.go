package logs

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/rs/zerolog"
)

// Hclog returns a logger for the HashiCorp library with the given name, for example "raft". It writes the
// messages to l, with the key-value pairs as fields.
func Hclog(l zerolog.Logger, name string) hclog.InterceptLogger {
	level := hclog.Error
	if l.GetLevel() <= zerolog.DebugLevel {
		level = hclog.Trace
	}
	il := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: name, Level: level, Output: io.Discard})
	il.RegisterSink(&sink{log: l.With().Str("lib", name).Logger(), limit: newLimit()})
	return il
}

// Std returns a logger for a library that uses package log and starts each message with a level in
// brackets, as memberlist and Serf do.
func Std(l zerolog.Logger, name string) *log.Logger {
	return Hclog(l, name).StandardLogger(&hclog.StandardLoggerOptions{InferLevels: true})
}

// sink writes the messages of one library.
type sink struct {
	log   zerolog.Logger
	limit *repeatLimit
}

var _ hclog.SinkAdapter = (*sink)(nil)

// Accept implements hclog.SinkAdapter. It writes one message, unless its level or the limit suppresses it. Any
// goroutine of the HashiCorp library may call it.
func (s *sink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	if level == hclog.Error && isLocallyClosed(args) {
		level = hclog.Warn
	}
	line := s.newLine(level)
	if !line.Enabled() {
		return
	}
	if level == hclog.Error {
		omitted, ok := s.limit.allow(msg)
		if !ok {
			return
		}
		if omitted > 0 {
			line = line.Int("suppressed", omitted)
		}
	}
	for i := 0; i+1 < len(args); i += 2 {
		line = field(line, fmt.Sprint(args[i]), args[i+1])
	}
	line.Msg(truncateText(msg))
}

// newLine starts a line with the level that a message of the library has in the log of this program. It is lower
// than that of the library, because most messages of the library need no action.
func (s *sink) newLine(level hclog.Level) *zerolog.Event {
	switch level {
	case hclog.Error:
		return s.log.Warn() //nolint:zerologlint // the caller sends it
	case hclog.Warn, hclog.Info:
		return s.log.Debug() //nolint:zerologlint // the caller sends it
	case hclog.NoLevel, hclog.Trace, hclog.Debug, hclog.Off:
	}
	return s.log.Trace() //nolint:zerologlint // the caller sends it
}

// isLocallyClosed reports whether args contain the error of a connection that this process closed itself, as a
// stopping node does.
func isLocallyClosed(args []any) bool {
	return slices.ContainsFunc(args, func(v any) bool {
		err, ok := v.(error)
		return ok && (errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe))
	})
}

// field adds one key-value pair to e, in the most readable form.
func field(e *zerolog.Event, key string, value any) *zerolog.Event {
	switch v := value.(type) {
	case error:
		return e.AnErr(key, v)
	case hclog.Format:
		if len(v) == 0 {
			return e
		}
		f, ok := v[0].(string)
		if !ok {
			return e.Interface(key, v)
		}
		return e.Str(key, fmt.Sprintf(f, v[1:]...))
	case fmt.Stringer:
		return e.Stringer(key, v)
	case string:
		return e.Str(key, v)
	default:
		return e.Interface(key, v)
	}
}
