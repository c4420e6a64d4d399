package admin

import (
	"context"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"shardway/event"
	"shardway/internal/problem"
)

// serverName is the Server header of every answer: the client tells an admin port
// from an app port by it.
const serverName = "shardway-admin"

// guard is the one middleware that every request passes, also one for a path
// that does not exist: the headers of every answer, who may do what, requests
// that a page of somebody else makes a browser send, a line in the log for every
// change, and a panic that must not go unlogged.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.logPanic(r)
		setSecurityHeaders(w.Header())
		access := s.access.Load()
		who, err := access.authenticate(r)
		if err != nil {
			if s.wantsLoginPage(access, r) {
				s.writeLoginPage(w)
				return
			}
			s.reject(w, r, who, problem.New(problem.Unauthorized, err.Error()))
			return
		}
		if p := s.authorize(access, who, r); p != nil {
			s.reject(w, r, who, p)
			return
		}
		if requiredPermission(r) != writeAccess || r.Method == http.MethodGet {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), admissionKey{}, &admission{caller: who, access: access, detailed: who.byToken || access.isValidHost(r.Host)})))
			return
		}
		s.serveChange(next, w, r, &admission{caller: who, access: access})
	})
}

// secure sets the headers of every answer: no other page may take, frame or learn from
// one, and none is a page that takes anything from anywhere. The one that is a page says
// itself what it needs.
func setSecurityHeaders(h http.Header) {
	h.Set("Server", serverName)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
}

// permit decides about a request of somebody known.
func (s *Server) authorize(a *Access, who caller, r *http.Request) *problem.Problem {
	if who.permission < requiredPermission(r) {
		return problem.Newf(problem.Forbidden, "%s may read but not write: this takes a write token or certificate", who.name)
	}
	if who.byToken {
		return nil // no page can make a browser show it
	}
	if !a.isValidHost(r.Host) && !isProbe(r) {
		return problem.Newf(problem.Forbidden, "%q is not a name of this admin port: use an address or localhost, or add the name with --admin-host", r.Host)
	}
	return s.checkOrigin(r)
}

// notElsewhere refuses what a page of another origin makes a browser send.
func (s *Server) checkOrigin(r *http.Request) *problem.Problem {
	if err := s.crossOrigin.Check(r); err != nil {
		return problem.New(problem.Forbidden, "a page of another origin sent this request: change the cluster with the commands, or from the admin page itself")
	}
	// Reading its answer is forbidden to such a page by the browser; making the
	// node work, with a profile in an image's place, is forbidden here.
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return nil
	}
	if r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" && requiredPermission(r) == readAccess {
		return nil // somebody follows a link
	}
	return problem.New(problem.Forbidden, "a page of another origin sent this request: open the admin page itself")
}

// probe reports a request that balancers send, by whatever name they know the
// node. Nobody learns anything of the cluster from its answer; see told.
func isProbe(r *http.Request) bool { return r.URL.Path == "/livez" || r.URL.Path == "/readyz" }

// refuse answers who may not, and remembers that he asked.
func (s *Server) reject(w http.ResponseWriter, r *http.Request, who caller, p *problem.Problem) {
	if wait := s.rejections.add(r.RemoteAddr, time.Now()); wait > 0 {
		p = &problem.Problem{Code: problem.TooManyRequests, Detail: "too many requests from this address were refused: " + p.Detail, RetryAfter: wait}
	} else {
		s.log.Warn().Str("by", who.name).Str("from", who.addr).Str("method", r.Method).Str("path", truncate(r.URL.Path)).Str("why", truncate(p.Detail)).Msg("admin request refused")
	}
	if p.Code == problem.Unauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="shardway"`)
	}
	problem.Write(w, p)
}

// change is a request that changes something, as the log will tell it.
type admission struct {
	caller   caller
	access   *Access // by which he was let in
	action   string  // empty: method and path say it
	detailed bool    // he may learn why the node is not ready: no page of elsewhere asks
}

type admissionKey struct{}

// changeOf returns the change that a handler is asked for. Handlers that are not
// behind guard know no caller.
func admissionOf(r *http.Request) *admission {
	if c, ok := r.Context().Value(admissionKey{}).(*admission); ok {
		return c
	}
	return &admission{caller: caller{name: "nobody known", addr: r.RemoteAddr}}
}

// change runs a handler that changes something and logs who, from where, what
// and how it ended, whether it did or not.
func (s *Server) serveChange(next http.Handler, w http.ResponseWriter, r *http.Request, c *admission) {
	who := c.caller
	seen := &statusWriter{ResponseWriter: w}
	defer func() {
		if c.action == "" {
			c.action = r.Method + " " + r.URL.Path
		}
		d := &event.AdminAction{By: who.name, From: who.addr, What: truncate(c.action), Status: seen.result()}
		s.log.Info().Str("by", d.By).Str("from", d.From).Str("what", d.What).Int("status", d.Status).Msg("change requested")
		var tell bool
		if tell, d.Suppressed = s.failedActions.sample(d.Status, time.Now()); tell {
			s.events.Add(event.Event{Kind: event.ActionRequested, Action: d})
		}
	}()
	next.ServeHTTP(seen, r.WithContext(context.WithValue(r.Context(), admissionKey{}, c)))
	seen.completed = true
}

// mostLogged is how much of what somebody has sent a line of the log takes, in bytes.
const maxLoggedBytes = 512

func truncate(text string) string {
	if len(text) <= maxLoggedBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxLoggedBytes], "") + "…"
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status    int
	completed bool // without a panic
}

// WriteHeader remembers the final status.
func (w *statusWriter) WriteHeader(status int) {
	if w.status < http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// code is 200 if the handler only wrote a body, and 500 if it panicked first.
func (w *statusWriter) result() int {
	switch {
	case w.status != 0:
		return w.status
	case w.completed:
		return http.StatusOK
	}
	return http.StatusInternalServerError
}

// bounded limits a request's body in size; the server's timeout limits it in
// time, read or not.
func limitBody(next http.Handler) http.Handler { return http.MaxBytesHandler(next, maxBodyBytes) }

// recovered logs a panic of a handler and cuts the connection: whatever was
// written of the answer must not look whole.
func (s *Server) logPanic(r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	//nolint:errorlint,err113 // net/http compares this very value.
	if v != http.ErrAbortHandler {
		s.log.Error().Str("path", r.URL.Path).Any("panic", v).Bytes("stack", debug.Stack()).Msg("admin request panicked")
	}
	panic(http.ErrAbortHandler)
}
