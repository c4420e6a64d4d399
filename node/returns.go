package node

import (
	"context"
	"net"
	"sync"

	"github.com/rs/zerolog"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/node/apphealth"
)

// appWatch finds out when the app has restarted, from what checks and connections meet: a
// shard that left an app without hooks may return only then. Its methods may be called from
// any goroutine; nil watches nothing.
type appWatch struct {
	newest func() *ack.State
	stored *persisted[string] // the instance, for the next process of the node
	log    zerolog.Logger
	// connected reports whether the app has a connection open, so that it has not ended. renew
	// closes the idle connections. Both are the proxy's.
	connected func() bool
	renew     func()
	// inProcess means that the app is in this process, and is not connected to.
	inProcess bool

	// mu protects the following fields.
	mu    sync.Mutex
	watch *ackagent.AppWatch
}

// newAppWatch returns the watch of this node's app, nil if shards may return at any time.
func newAppWatch(o *Options, newest func() *ack.State) *appWatch {
	if !o.AfterRestart || o.Gateway {
		return nil
	}
	instance, err := o.Dir.AppInstance()
	if err != nil {
		o.Log.Warn().Err(err).Msg("app instance not read")
	}
	w := &appWatch{newest: newest, stored: newPersisted("app instance", instance, o.Dir.KeepAppInstance, o.Log), log: o.Log, watch: ackagent.NewAppWatch(instance)}
	if o.CheckApp == nil {
		w.inProcess = true
		w.watch = ackagent.NewAppWatch("")
		w.watch.Refused(w.watch.Begin(0)) // it starts with this process
		w.watch.Checked(w.watch.Begin(0), "")
	}
	return w
}

// begin is called before a check or a connection for requests.
func (w *appWatch) begin() ackagent.Attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watch.Begin(w.newest().Committed().Epoch())
}

// checked takes the result of a check. instance is what the app's response named, empty
// without a response or a name.
func (w *appWatch) checked(a ackagent.Attempt, instance string, err error) {
	if apphealth.Refused(err) {
		w.refused(a)
		return
	}
	if err != nil && instance == "" {
		return
	}
	w.mu.Lock()
	restarted := w.watch.Checked(a, instance)
	w.mu.Unlock()
	if !restarted {
		return
	}
	w.stored.set(instance)
	w.log.Info().Str("instance", instance).Msg("app instance")
	w.renew() // the process before may still answer requests on connections that it has
}

// refused takes a refused connection. An app that has closed its port, and not its connections,
// runs on: it has not restarted.
func (w *appWatch) refused(a ackagent.Attempt) {
	if w.connected() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watch.Refused(a)
}

// report adds what the node reports of its app.
func (w *appWatch) report(s *ackagent.Observation) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.AfterRestart, s.AppSince = true, w.watch.Since()
}

// applied takes the map that a look of the agent went by, and whether it published a lease.
func (w *appWatch) applied(s *ack.State, leased bool) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watch.Applied(s.Committed().Epoch(), leased)
	if w.inProcess && leased {
		w.watch.Connected()
	}
}

// seen is dial, and tells the watch of connections for requests.
func (w *appWatch) seen(dial func(context.Context) (net.Conn, error)) func(context.Context) (net.Conn, error) {
	if w == nil {
		return dial
	}
	return func(ctx context.Context) (net.Conn, error) {
		a := w.begin()
		c, err := dial(ctx)
		w.dialed(a, err)
		return c, err
	}
}

// dialed takes the result of a connection for requests, before any byte goes through it.
func (w *appWatch) dialed(a ackagent.Attempt, err error) {
	switch {
	case err == nil:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watch.Connected()
	case apphealth.Refused(err):
		w.refused(a)
	}
}

// watchedCheck returns the check of the app, whose results the watch is told.
func (n *Node) watchedCheck() func(context.Context) error {
	check := n.o.CheckApp
	if n.appWatch == nil {
		return check
	}
	return func(ctx context.Context) error {
		a := n.appWatch.begin()
		err := check(ctx)
		instance := ""
		if n.o.AppInstance != nil {
			instance = n.o.AppInstance()
		}
		n.appWatch.checked(a, instance, err)
		return err
	}
}
