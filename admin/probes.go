package admin

import (
	"context"
	"net"
	"net/http"

	"github.com/rs/zerolog"

	"shardway/internal/problem"
)

// ServeProbes answers /livez and /readyz on ln, and nothing else, until ctx
// ends: for a prober that has no token. It owns ln.
func ServeProbes(ctx context.Context, ln net.Listener, r Readiness, log zerolog.Logger) error {
	return serve(ctx, ln, probes(r), log)
}

func probes(r Readiness) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/livez", handle(livez, http.MethodGet, http.MethodHead))
	mux.Handle("/readyz", handle(readyz(r), http.MethodGet, http.MethodHead))
	mux.Handle("/", handle(notFound("/livez and /readyz")))
	return bounded(mux)
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
			if changeOf(r).told {
				return problem.New(problem.NotReady, err.Error())
			}
			return problem.New(problem.NotReady, Brief(err))
		}
		write(w, "text/plain; charset=utf-8", []byte("ok\n"))
		return nil
	}
}
