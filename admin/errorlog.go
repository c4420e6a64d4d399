package admin

import (
	stdlog "log"
	"strings"

	"github.com/rs/zerolog"
)

// errorLog returns a logger for net/http that writes to log. The level is debug, because clients
// cause nearly all of these messages.
func errorLog(log zerolog.Logger) *stdlog.Logger {
	return stdlog.New(lineWriter{log}, "", 0)
}

type lineWriter struct{ log zerolog.Logger }

func (w lineWriter) Write(b []byte) (int, error) {
	w.log.Debug().Str("text", strings.TrimSpace(string(b))).Msg("admin server reported")
	return len(b), nil
}
