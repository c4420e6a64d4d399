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

	"shardway/event"
)

// Options is what a Server is made of.
type Options struct {
	// Cluster answers. Required.
	Cluster Cluster
	// Metrics feeds /metrics. Nil: there is no /metrics.
	Metrics prometheus.Gatherer
	// Events has what happens at this node, and takes what is asked of it here. Nil:
	// there is no /v1/events.
	Events *event.Ring
	// Access says who may do what at first; SetAccess changes it. Zero: everybody
	// who reaches the port may do everything.
	Access Access
	// Log takes the actions and the server's own errors. Zero logs nothing.
	Log zerolog.Logger
}

// Server is the admin HTTP server of one node. It is safe for any number of
// goroutines.
type Server struct {
	cluster      Cluster
	metrics      prometheus.Gatherer
	log          zerolog.Logger
	events       *event.Ring
	eventReaders sourceLimit // of events
	lists        sourceLimit // of all shards
	page         *page
	handler      http.Handler

	access        atomic.Pointer[Access]
	crossOrigin   *http.CrossOriginProtection
	rejections    rejectionLimit
	failedActions failedActions
}

// New returns a Server that is not listening yet.
func New(o Options) *Server {
	s := &Server{
		cluster: o.Cluster, metrics: o.Metrics, log: o.Log, events: o.Events, eventReaders: sourceLimit{max: maxReaders, maxPerSource: maxReadersPerSource},
		lists: sourceLimit{max: maxLists, maxPerSource: maxListsPerSource}, page: newPage(), crossOrigin: http.NewCrossOriginProtection(),
	}
	s.access.Store(&o.Access)
	s.handler = s.guard(limitBody(s.routes()))
	return s
}

// SetAccess changes who may do what, for requests from now on.
func (s *Server) SetAccess(a Access) { s.access.Store(&a) }

// Handler returns the handler of every endpoint, guard included.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve answers on ln until ctx ends. It then ends long-polls, waits up to 3 s
// for other answers, not for connections that have asked nothing, closes every
// connection and returns nil. It owns ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	return serve(ctx, ln, s.handler, s.log)
}

// Bounds on one client of the admin port. They keep a slow or broken one from
// holding memory; pprof and long-polls extend the write timeout for themselves.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second // of a whole request; ends with its body
	writeTimeout      = 30 * time.Second
	idleTimeout       = time.Minute
	stopTimeout       = 3 * time.Second
	maxHeaderBytes    = 16 << 10
	maxBodyBytes      = 64 << 10
)

// serve runs an HTTP server until ctx ends.
func serve(ctx context.Context, ln net.Listener, h http.Handler, log zerolog.Logger) error {
	var silent unusedConns
	srv := &http.Server{
		ConnState:         silent.track,
		Handler:           h,
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
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	silent.closeAll()
	if srv.Shutdown(stopping) != nil {
		// The stragglers had their time; Close fails only on a closed listener.
		_ = srv.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
