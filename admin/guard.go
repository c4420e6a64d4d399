package admin

import (
	"net/http"
	"runtime/debug"

	"shardway/internal/problem"
)

// serverName is the Server header of every answer: the client tells an ops port
// from an app port by it.
const serverName = "shardway-admin"

// guard is the one middleware that every request passes, also one for a path
// that does not exist: the headers of every answer, the origin of a change, and
// a panic that must not go unlogged.
func (s *Server) guard(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.recovered(r)
		h := w.Header()
		h.Set("Server", serverName)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		if err := origin.Check(r); err != nil {
			problem.Write(w, problem.New(problem.Forbidden, "a page of another origin sent this request: change the cluster with the commands, or from the ops page itself"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bounded limits a request's body in size; the server's timeout limits it in
// time, read or not.
func bounded(next http.Handler) http.Handler { return http.MaxBytesHandler(next, maxBodyBytes) }

// recovered logs a panic of a handler and cuts the connection: whatever was
// written of the answer must not look whole.
func (s *Server) recovered(r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	//nolint:errorlint,err113 // net/http compares this very value.
	if v != http.ErrAbortHandler {
		s.log.Error().Str("path", r.URL.Path).Any("panic", v).Bytes("stack", debug.Stack()).Msg("ops request panicked")
	}
	panic(http.ErrAbortHandler)
}
