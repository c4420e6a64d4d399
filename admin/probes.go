package admin

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"shardway/admin/api"
	"shardway/admin/connlimit"
	"shardway/internal/problem"
)

const (
	// drainPollInterval is the interval between two checks of the progress of a drain.
	drainPollInterval = 100 * time.Millisecond
	// maxDrainWaiters is the maximum number of concurrent /drained requests, and
	// maxDrainWaitersPerSource the maximum for one source. Without the second limit, one client
	// could use up the first, and the app would be stopped before the end of the drain.
	maxDrainWaiters          = 256
	maxDrainWaitersPerSource = 16
)

// ProbedNode is a node that probes can query.
type ProbedNode interface {
	api.Readiness
	// SelfState returns the progress of the drain of this process.
	SelfState() api.DrainState
}

// ServeProbes serves /livez, /readyz and /drained on ln until ctx ends, for probes without a
// token. It closes ln.
func ServeProbes(ctx context.Context, ln net.Listener, node ProbedNode, log zerolog.Logger) error {
	return serve(ctx, ln, probes(node), log)
}

// probes returns the handler of ServeProbes.
func probes(node ProbedNode) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/livez", handle(livez, http.MethodGet, http.MethodHead))
	mux.Handle("/readyz", handle(readyz(node), http.MethodGet, http.MethodHead))
	mux.Handle("/drained", handle(drained(node), http.MethodGet, http.MethodHead))
	mux.Handle("/", handle(notFound("/livez, /readyz and /drained")))
	return limitBody(mux)
}

// drained returns the endpoint /drained. It responds once a requested drain of this process is
// complete, so that a supervisor can stop the app. If no other node can take over the shards, it
// responds with an error. It waits until the client disconnects, or for at most the duration in ?wait.
func drained(node ProbedNode) endpoint {
	waiters := connlimit.RequestLimit{Max: maxDrainWaiters, MaxPerSource: maxDrainWaitersPerSource}
	return func(w http.ResponseWriter, r *http.Request) error {
		if !waiters.Acquire(r.RemoteAddr) {
			return problem.New(problem.NotReady, "too many clients are already waiting for the drain")
		}
		defer waiters.Release(r.RemoteAddr)
		values, err := query(r, "wait")
		if err != nil {
			return err
		}
		wait, err := values.waitTime(0)
		if err != nil {
			return err
		}
		if err = http.NewResponseController(w).SetWriteDeadline(time.Time{}); err != nil {
			return err
		}
		ctx := r.Context()
		if wait > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, wait)
			defer cancel()
		}
		if err := waitDrained(ctx, node); err != nil {
			return err
		}
		writeOK(w, "text/plain; charset=utf-8", []byte("ok\n"))
		return nil
	}
}

// waitDrained waits until a requested drain of this process is complete. It returns an error when ctx
// ends, or if no other node can take over the shards.
func waitDrained(ctx context.Context, node ProbedNode) error {
	ticker := time.NewTicker(drainPollInterval)
	defer ticker.Stop()
	for {
		state := node.SelfState()
		switch {
		case !state.Requested:
		case !state.Left():
			return nil
		case state.BlockedBy != "":
			return problem.New(problem.NotReady, "no other node takes the shards: "+state.BlockedBy)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return problem.New(problem.NotReady, "this node is not drained yet")
		}
	}
}

// livez reports that the process responds. It checks nothing else, because a restart would not fix
// the conditions that readyz reports.
func livez(w http.ResponseWriter, _ *http.Request) error {
	writeOK(w, "text/plain; charset=utf-8", []byte("ok\n"))
	return nil
}

// readyz reports whether the node is ready. The full reason, which contains addresses, is only for
// callers with read access to the admin port. Other callers get a short reason.
func readyz(ready api.Readiness) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := ready.Ready(); err != nil {
			if admissionOf(r).detailed {
				return problem.New(problem.NotReady, err.Error())
			}
			return problem.New(problem.NotReady, api.Brief(err))
		}
		writeOK(w, "text/plain; charset=utf-8", []byte("ok\n"))
		return nil
	}
}
