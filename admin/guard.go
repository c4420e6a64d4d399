package admin

import (
	"context"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"shardway/admin/api"
	"shardway/admin/auth"
	"shardway/event"
	"shardway/internal/problem"
)

// guard is the middleware for every request, including those for unknown paths. It sets the
// security headers, authenticates and authorizes the caller, rejects cross-origin requests, logs
// every change, and logs panics.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.logPanic(r)
		setSecurityHeaders(w.Header())
		access := s.access.Load()
		caller, err := access.Authenticate(r)
		if err != nil {
			if s.wantsLoginPage(access, r) {
				s.writeLoginPage(w)
				return
			}
			s.reject(w, r, caller, problem.New(problem.Unauthorized, err.Error()))
			return
		}
		if p := s.authorize(access, caller, r); p != nil {
			s.reject(w, r, caller, p)
			return
		}
		isChange := auth.Required(r) == auth.Write && r.Method != http.MethodGet
		if isChange {
			s.serveChange(next, w, r, &admission{caller: caller, access: access})
			return
		}
		detailed := caller.ByToken || access.ValidHost(r.Host)
		next.ServeHTTP(w, withAdmission(r, &admission{caller: caller, access: access, detailed: detailed}))
	})
}

// setSecurityHeaders sets the headers of every response. No other page can embed, frame or read a
// response, and a response cannot load anything. The dashboard replaces the
// Content-Security-Policy with its own.
func setSecurityHeaders(header http.Header) {
	header.Set("Server", api.ServerName)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
}

// authorize returns nil if the authenticated caller may send r.
func (s *Server) authorize(access *auth.Access, caller auth.Caller, r *http.Request) *problem.Problem {
	if caller.Permission < auth.Required(r) {
		return problem.Newf(problem.Forbidden, "%s may read but not write: this takes a write token or certificate", caller.Name)
	}
	if caller.ByToken {
		return nil // a cross-origin page cannot make a browser send a token
	}
	if !access.ValidHost(r.Host) && !isProbe(r) {
		return problem.Newf(problem.Forbidden, "%q is not a name of this admin port: use an address or localhost, or add the name with --admin-host", r.Host)
	}
	return s.checkOrigin(r)
}

// checkOrigin rejects requests that a page of another origin makes a browser send.
func (s *Server) checkOrigin(r *http.Request) *problem.Problem {
	if err := s.crossOrigin.Check(r); err != nil {
		return problem.New(problem.Forbidden, "a page of another origin sent this request: change the cluster with the commands, or from the admin page itself")
	}
	// The browser prevents such a page from reading the response. This check also prevents the page
	// from causing load, for example with a profile as the source of an image.
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return nil
	}
	followsLink := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	if followsLink && auth.Required(r) == auth.Read {
		return nil
	}
	return problem.New(problem.Forbidden, "a page of another origin sent this request: open the admin page itself")
}

// isProbe reports whether r is a health probe. Load balancers send probes with any host name, so
// the host name is not checked. The response contains no details for them (see readyz).
func isProbe(r *http.Request) bool { return r.URL.Path == "/livez" || r.URL.Path == "/readyz" }

// reject sends an error response and counts the rejected request against its source.
func (s *Server) reject(w http.ResponseWriter, r *http.Request, caller auth.Caller, reason *problem.Problem) {
	if wait := s.rejections.Add(r.RemoteAddr, time.Now()); wait > 0 {
		reason = &problem.Problem{Code: problem.TooManyRequests, Detail: "too many requests from this address were refused: " + reason.Detail, RetryAfter: wait}
	} else {
		s.log.Warn().Str("by", caller.Name).Str("from", caller.Addr).Str("method", r.Method).Str("path", truncate(r.URL.Path)).Str("reason", truncate(reason.Detail)).Msg("admin request refused")
	}
	if reason.Code == problem.Unauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="shardway"`)
	}
	problem.Write(w, reason)
}

// admission contains the results of guard for one request. The handler adds the description of an
// action for the log.
type admission struct {
	caller   auth.Caller
	access   *auth.Access // the access rules that admitted the caller
	action   string       // description for the log; empty means method and path
	reason   string       // why the caller requests the action; may be empty
	detailed bool         // the response may explain why the node is not ready: no cross-origin page can read it
}

// admissionKey is the context key of the *admission of a request.
type admissionKey struct{}

// withAdmission returns r with an admission in its context.
func withAdmission(r *http.Request, admission *admission) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), admissionKey{}, admission))
}

// admissionOf returns the admission of a request. Without guard, in the probe server, the caller
// is unknown.
func admissionOf(r *http.Request) *admission {
	if admission, ok := r.Context().Value(admissionKey{}).(*admission); ok {
		return admission
	}
	return &admission{caller: auth.Unknown(r)}
}

// serveChange runs a handler that changes something. It logs the caller, its address, the action
// and the response status, even if the handler panics.
func (s *Server) serveChange(next http.Handler, w http.ResponseWriter, r *http.Request, admission *admission) {
	caller := admission.caller
	recorder := &statusWriter{ResponseWriter: w}
	defer func() {
		if admission.action == "" {
			admission.action = r.Method + " " + r.URL.Path
		}
		logged := &event.AdminAction{By: caller.Name, From: caller.Addr, What: truncate(admission.action), Reason: admission.reason, Status: recorder.result()}
		entry := s.log.Info().Str("by", logged.By).Str("from", logged.From).Str("what", logged.What).Int("status", logged.Status)
		if logged.Reason != "" {
			entry = entry.Str("reason", logged.Reason)
		}
		entry.Msg("change requested")
		var report bool
		if report, logged.Suppressed = s.failedActions.sample(logged.Status, time.Now()); report {
			s.events.Add(event.Event{Kind: event.ActionRequested, Action: logged})
		}
	}()
	next.ServeHTTP(recorder, withAdmission(r, admission))
	recorder.completed = true
}

// maxLoggedBytes is the maximum length of client-supplied text in a log line.
const maxLoggedBytes = 512

// truncate shortens text to maxLoggedBytes, at a character boundary.
func truncate(text string) string {
	if len(text) <= maxLoggedBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxLoggedBytes], "") + "…"
}

// statusWriter records the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status    int  // status of the response; zero means that the handler has set none
	completed bool // the handler returned without a panic
}

// WriteHeader records the final status.
func (w *statusWriter) WriteHeader(status int) {
	if w.status < http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap supports http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// result returns the recorded status. Without one it returns 200, or 500 if the handler panicked.
func (w *statusWriter) result() int {
	switch {
	case w.status != 0:
		return w.status
	case w.completed:
		return http.StatusOK
	}
	return http.StatusInternalServerError
}

// limitBody limits the size of a request body. The read timeout of the server limits its duration.
func limitBody(next http.Handler) http.Handler { return http.MaxBytesHandler(next, maxBodyBytes) }

// logPanic logs a panic of a handler and closes the connection, so that the client does not mistake
// a partial response for a complete one.
func (s *Server) logPanic(r *http.Request) {
	panicValue := recover()
	if panicValue == nil {
		return
	}
	//nolint:errorlint,err113 // net/http compares with == as well
	if panicValue != http.ErrAbortHandler {
		s.log.Error().Str("path", r.URL.Path).Any("panic", panicValue).Bytes("stack", debug.Stack()).Msg("admin request panicked")
	}
	panic(http.ErrAbortHandler)
}
