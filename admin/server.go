package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"shardway/admin/api"
	"shardway/admin/auth"
	"shardway/admin/connlimit"
	"shardway/event"
)

// Options configure a Server.
type Options struct {
	// API is the node.
	API api.Set
	// Metrics are the metrics for /metrics. nil disables /metrics.
	Metrics prometheus.Gatherer
	// Events contains the events of this node; the server adds the actions of operators. nil disables
	// /v1/events.
	Events *event.Ring
	// Access contains the initial access rules; SetAccess replaces them. The zero value permits
	// everything to every caller.
	Access auth.Access
	// Log receives the actions and the errors of the server. The zero value logs nothing.
	Log zerolog.Logger
}

// Server is the admin HTTP server of one node. It is safe for concurrent use.
type Server struct {
	api           api.Set
	metrics       prometheus.Gatherer
	log           zerolog.Logger
	events        *event.Ring
	eventReaders  connlimit.RequestLimit
	lists         connlimit.RequestLimit // of all shards
	endpointPolls connlimit.RequestLimit
	lockWaits     connlimit.RequestLimit
	page          *page
	handler       http.Handler

	access        atomic.Pointer[auth.Access]
	crossOrigin   *http.CrossOriginProtection
	rejections    auth.RejectionLimit
	failedActions failedActions
}

// New returns a Server. Call Serve to start it.
func New(options Options) *Server {
	s := &Server{
		api: options.API, metrics: options.Metrics, log: options.Log, events: options.Events, eventReaders: connlimit.RequestLimit{Max: maxReaders, MaxPerSource: maxReadersPerSource},
		lists: connlimit.RequestLimit{Max: maxLists, MaxPerSource: maxListsPerSource}, endpointPolls: connlimit.RequestLimit{Max: maxEndpointPolls, MaxPerSource: maxEndpointPollsPerSource},
		lockWaits: connlimit.RequestLimit{Max: maxLockWaits, MaxPerSource: maxLockWaitsPerSource},
		page:      newPage(), crossOrigin: http.NewCrossOriginProtection(),
	}
	s.access.Store(&options.Access)
	s.handler = s.guard(limitBody(s.routes()))
	return s
}

// SetAccess replaces the access rules for later requests.
func (s *Server) SetAccess(a auth.Access) { s.access.Store(&a) }

// Handler returns the handler of all endpoints, including guard.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve serves ln until ctx ends. It then ends long polls, waits up to 3 s for other responses,
// closes all connections and returns nil. It closes unused connections immediately. It closes ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	return serve(ctx, ln, s.handler, s.log)
}

// Limits on one client of the admin port, so that a slow client cannot occupy memory indefinitely.
// Profiles and long polls extend the write timeout.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second // of a complete request, including its body
	writeTimeout      = 30 * time.Second
	idleTimeout       = time.Minute
	stopTimeout       = 3 * time.Second
	maxHeaderBytes    = 16 << 10
	maxBodyBytes      = 64 << 10
)

// serve runs an HTTP server until ctx ends.
func serve(ctx context.Context, ln net.Listener, handler http.Handler, log zerolog.Logger) error {
	var unused connlimit.UnusedConns
	srv := &http.Server{
		ConnState:         unused.Track,
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          errorLog(log),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	unused.CloseAll()
	if srv.Shutdown(shutdownCtx) != nil {
		// Close fails only for a listener that is closed already.
		_ = srv.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
