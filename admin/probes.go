package admin

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/problem"
)

const (
	// drainedLook is the time between two looks at how far a drain is.
	drainPollInterval = 100 * time.Millisecond
	// drainedWaiting is how many may wait for the end of a drain, and drainedFromOne how
	// many of them from one address: whoever reaches the port could take all places, and
	// the app beside the node would be ended before its time.
	maxDrainWaiters          = 256
	maxDrainWaitersPerSource = 16
)

// Probed is a node as probes ask it.
type ProbedNode interface {
	Readiness
	// SelfState tells how far the drain is that this process was asked for.
	SelfState() DrainState
}

// ServeProbes answers /livez, /readyz and /drained on ln, and nothing else, until ctx
// ends: for a prober that has no token. It owns ln.
func ServeProbes(ctx context.Context, ln net.Listener, n ProbedNode, log zerolog.Logger) error {
	return serve(ctx, ln, probes(n), log)
}

func probes(n ProbedNode) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/livez", handle(livez, http.MethodGet, http.MethodHead))
	mux.Handle("/readyz", handle(readyz(n), http.MethodGet, http.MethodHead))
	mux.Handle("/drained", handle(drained(n), http.MethodGet, http.MethodHead))
	mux.Handle("/", handle(notFound("/livez, /readyz and /drained")))
	return limitBody(mux)
}

// drained answers when the process was asked to drain itself and has nothing left, or
// nobody takes what it has: for what is to end an app after that. It asks nothing of the
// node, and waits for as long as the client does or, with ?wait=, at most so long.
func drained(n ProbedNode) endpoint {
	l := sourceLimit{max: maxDrainWaiters, maxPerSource: maxDrainWaitersPerSource}
	return func(w http.ResponseWriter, r *http.Request) error {
		if !l.acquire(r.RemoteAddr) {
			return problem.New(problem.NotReady, "too many wait for this already")
		}
		defer l.release(r.RemoteAddr)
		q, err := query(r, "wait")
		if err != nil {
			return err
		}
		wait, err := q.duration("wait", 0)
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
		t := time.NewTicker(drainPollInterval)
		defer t.Stop()
		for {
			switch d := n.SelfState(); {
			case !d.Asked:
			case !d.Left():
				write(w, "text/plain; charset=utf-8", []byte("ok\n"))
				return nil
			case d.Stays != "":
				return problem.New(problem.NotReady, "nobody takes the shards: "+d.Stays)
			}
			select {
			case <-t.C:
			case <-ctx.Done():
				return problem.New(problem.NotReady, "this node is not drained yet")
			}
		}
	}
}

// livez says that the process runs and answers: no more, because restarting it
// would not heal what readyz may complain about.
func livez(w http.ResponseWriter, _ *http.Request) error {
	write(w, "text/plain; charset=utf-8", []byte("ok\n"))
	return nil
}

// readyz says in full why the node is not ready to who has read access at the admin
// port, and to others in a word: addresses are nobody else's affair.
func readyz(ready Readiness) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := ready.Ready(); err != nil {
			if admissionOf(r).detailed {
				return problem.New(problem.NotReady, err.Error())
			}
			return problem.New(problem.NotReady, Brief(err))
		}
		write(w, "text/plain; charset=utf-8", []byte("ok\n"))
		return nil
	}
}
