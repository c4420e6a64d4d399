package admin

import (
	stdlog "log"
	"strings"

	"github.com/rs/zerolog"
)

// errorLog makes net/http report to log. What it reports there is nearly always
// a client's doing, so it is no error of ours.
func errorLog(log zerolog.Logger) *stdlog.Logger {
	return stdlog.New(lineWriter{log}, "", 0)
}

type lineWriter struct{ log zerolog.Logger }

func (w lineWriter) Write(b []byte) (int, error) {
	w.log.Debug().Str("text", strings.TrimSpace(string(b))).Msg("admin server reported")
	return len(b), nil
}
