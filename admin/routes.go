package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"shardway/admin/api"
	"shardway/internal/problem"
)

// endpoint handles a request. A non-nil error becomes a problem response; the endpoint must not
// have written anything then.
type endpoint func(w http.ResponseWriter, r *http.Request) error

// routes returns the handler of all paths of the admin port.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	get := func(path string, endpoint endpoint) {
		mux.Handle(path, handle(endpoint, http.MethodGet, http.MethodHead))
	}
	post := func(path string, endpoint endpoint) { mux.Handle(path, handle(endpoint, http.MethodPost)) }

	get("/livez", livez)
	get("/readyz", readyz(s.api.Cluster))
	get("/status", s.status)
	get("/v1/nodes", s.nodes)
	get("/v1/services", s.services)
	get("/v1/locks", s.limitLists(s.locks))
	mux.Handle("/v1/locks/{name}", handle(s.lock, http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodDelete))
	get("/v1/joins", s.joins)
	get("/v1/shards", s.limitLists(s.shards))
	get("/v1/shards/{shard}", s.shard)
	get("/v1/endpoints", s.endpoints)
	get("/v1/map", s.shardMap)
	get("/v1/locate", s.locate)
	get("/v1/hot", s.hot)
	get("/v1/running", s.running)
	mux.Handle("/v1/websockets", handle(s.sockets, http.MethodGet, http.MethodHead, http.MethodPost))
	get("/v1/processes", s.processes)
	get("/v1/checkup", s.checkup)
	get("/v1/policy", s.policy)
	get("/v1/plan", s.plan)
	get("/v1/owned", s.limitLists(s.owned))
	get("/v1/backup", s.backup)
	get("/v1/events", s.eventsEndpoint)
	for verb := api.Remove; verb <= api.Refuse; verb++ {
		if verb != api.Drain {
			post("/v1/"+verb.String(), s.actionEndpoint(verb))
		}
	}
	mux.Handle("/v1/drain", handle(s.drain, http.MethodGet, http.MethodHead, http.MethodPost))
	post("/v1/rotate-secret", s.rotate)
	mux.Handle("/v1/upgrade", handle(s.upgrade, http.MethodGet, http.MethodHead, http.MethodPost))
	mux.Handle("/v1/settings", handle(s.timing, http.MethodGet, http.MethodHead, http.MethodPost))
	if s.metrics != nil {
		mux.Handle("/metrics", handle(s.metricsEndpoint(), http.MethodGet, http.MethodHead))
	}
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	get("/{$}", func(w http.ResponseWriter, r *http.Request) error {
		http.Redirect(w, r, "/status", http.StatusFound)
		return nil
	})
	mux.Handle("/", handle(notFound("/status, /livez, /readyz, /metrics, /debug/pprof/ and /v1/…")))
	return mux
}

func (s *Server) metricsEndpoint() endpoint {
	h := promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{ErrorLog: errorLog(s.log)})
	return func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)
		return nil
	}
}

// notFound returns the endpoint for unknown paths.
func notFound(known string) endpoint {
	return func(_ http.ResponseWriter, r *http.Request) error {
		return problem.Newf(problem.NotFound, "%q is not a path of the admin port, which has %s", r.URL.Path, known)
	}
}

// handle returns a handler for an endpoint that accepts the given methods, or all methods if none
// is given.
func handle(endpoint endpoint, methods ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error
		if len(methods) > 0 && !slices.Contains(methods, r.Method) {
			allow := strings.Join(methods, ", ")
			w.Header().Set("Allow", allow)
			err = problem.Newf(problem.MethodNotAllowed, "%s %s: use %s", r.Method, r.URL.Path, allow)
		} else {
			err = endpoint(w, r)
		}
		if err != nil {
			problem.Write(w, asProblem(err))
		}
	})
}

// asProblem converts an error to a problem. An unclassified error becomes an internal error.
func asProblem(err error) *problem.Problem {
	var p *problem.Problem
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &tooLarge):
		return problem.Newf(problem.TooLarge, "the body is longer than %d bytes", tooLarge.Limit)
	case errors.Is(err, api.ErrNotLeader):
		return problem.New(problem.NotLeader, err.Error())
	case errors.Is(err, api.ErrNodeUnhealthy):
		return problem.New(problem.NodeUnhealthy, err.Error())
	case errors.Is(err, api.ErrNoActiveNodes):
		return problem.New(problem.NoActiveNodes, err.Error())
	case errors.Is(err, api.ErrNoLeader):
		return problem.New(problem.NoLeader, err.Error())
	case errors.Is(err, api.ErrUnknownNode):
		return problem.New(problem.UnknownNode, err.Error())
	case errors.Is(err, api.ErrUnknownService):
		return problem.New(problem.UnknownService, err.Error())
	case errors.Is(err, api.ErrServiceInUse):
		return problem.New(problem.ServiceInUse, err.Error())
	case errors.Is(err, api.ErrInvalid):
		return problem.New(problem.BadRequest, err.Error())
	case errors.Is(err, api.ErrBusy):
		return &problem.Problem{Code: problem.TooManyRequests, Detail: err.Error(), RetryAfter: time.Second}
	case errors.Is(err, api.ErrRefused):
		return problem.New(problem.Conflict, err.Error())
	case errors.Is(err, api.ErrUnknown), errors.Is(err, context.DeadlineExceeded):
		return problem.New(problem.Timeout, err.Error()+": the action may still take effect; check /status before you try again")
	}
	return problem.New(problem.Internal, err.Error())
}

// writeJSON responds with v. It encodes v completely before it sends the first byte.
func writeJSON(w http.ResponseWriter, v any) error {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		return err
	}
	writeOK(w, "application/json", b.Bytes())
	return nil
}

// writeOK responds with status 200 and the body.
func writeOK(w http.ResponseWriter, contentType string, body []byte) {
	writeStatus(w, http.StatusOK, contentType, body)
}

// writeStatus responds with the status and the body.
func writeStatus(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// An error means that the client has disconnected.
	_, _ = w.Write(body)
}
