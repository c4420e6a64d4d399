package admin

import (
	"context"
	"net"
	"net/http"

	"github.com/rs/zerolog"

	"shardway/admin/api"
	"shardway/admin/localsock"
)

// ServeLocal serves the local socket of a node until ctx ends. It closes ln.
func ServeLocal(ctx context.Context, ln net.Listener, node api.LocalNode, log zerolog.Logger) error {
	mux := http.NewServeMux()
	mux.Handle(localsock.DrainPath, handle(func(w http.ResponseWriter, r *http.Request) error {
		if _, err := query(r); err != nil {
			return err
		}
		if r.Method == http.MethodPost {
			return writeJSON(w, node.DrainSelf())
		}
		return writeJSON(w, node.SelfState())
	}, http.MethodGet, http.MethodPost))
	mux.Handle("/", handle(notFound(localsock.DrainPath)))
	return serve(ctx, ln, limitBody(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setSecurityHeaders(w.Header())
		mux.ServeHTTP(w, r)
	})), log)
}
