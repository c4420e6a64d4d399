package node

import (
	"context"
	"net"
	"sync"

	"github.com/rs/zerolog"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/node/apphealth"
	"shardway/node/persist"
)

// appWatch detects restarts of the app from the results of health checks and connections. An app without
// hooks may keep an old copy of the state of a shard that has left the node. So such a shard may return
// only after the app has restarted. The methods may be called from any goroutine. nil means that shards
// may return at any time.
type appWatch struct {
	newest func() *ack.State      // returns the replicated state of this node
	stored *persist.Value[string] // the last app instance, on disk for the next process of the node
	log    zerolog.Logger
	// connected reports whether the proxy has an open connection to the app, which proves that the app
	// process still runs. renew makes the proxy close its idle connections to the app.
	connected func() bool
	renew     func()
	// inProcess means that the app runs in this process, so there are no connections to it.
	inProcess bool

	// mu protects the following fields.
	mu    sync.Mutex
	watch *ackagent.AppWatch
}

// newAppWatch returns the appWatch of this node. It returns nil if shards may return at any time.
func newAppWatch(o *Options, newest func() *ack.State) *appWatch {
	if !o.AfterRestart || o.Gateway {
		return nil
	}
	instance, err := o.Dir.AppInstance()
	if err != nil {
		o.Log.Warn().Err(err).Msg("app instance not read")
	}
	w := &appWatch{newest: newest, stored: persist.New("app instance", instance, o.Dir.StoreAppInstance, o.Log), log: o.Log, watch: ackagent.NewAppWatch(instance)}
	if o.CheckApp == nil {
		w.inProcess = true
		w.watch = ackagent.NewAppWatch("")
		w.watch.Refused(w.watch.BeginAttempt(0)) // the app starts with this process, so no older app process runs
		w.watch.Checked(w.watch.BeginAttempt(0), "")
	}
	return w
}

// begin returns the Attempt of a health check or of a connection for requests. The caller must call it
// before the check or the dial starts, because the result is valid from that time on.
func (w *appWatch) begin() ackagent.Attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watch.BeginAttempt(w.newest().Committed().Epoch())
}

// checked records the result of the health check a. instance is the app instance in the response of the
// app. It is empty if there was no response, or if the response contained no instance.
func (w *appWatch) checked(a ackagent.Attempt, instance string, err error) {
	if apphealth.Refused(err) {
		w.refused(a)
		return
	}
	if err != nil && instance == "" {
		return // the app may have received the check or not, so the result proves nothing
	}
	w.mu.Lock()
	restarted := w.watch.Checked(a, instance)
	w.mu.Unlock()
	if !restarted {
		return
	}
	w.stored.Set(instance)
	w.log.Info().Str("instance", instance).Msg("app instance")
	w.renew() // the previous app process may still respond on its open connections
}

// refused records that the app refused the connection of a. It ignores the refusal while the app has open
// connections: an app that has closed only its port still runs, so it has not restarted.
func (w *appWatch) refused(a ackagent.Attempt) {
	if w.connected() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watch.Refused(a)
}

// report adds the time since which the app process runs to s, as the epoch of a map. w may be nil.
func (w *appWatch) report(s *ackagent.Observation) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.ReturnsNeedRestart, s.AppStartedAfter = true, w.watch.StartedAfter()
}

// applied records that the agent has applied the state s, and whether the node has a lease. agent.poll
// calls it. w may be nil.
func (w *appWatch) applied(s *ack.State, leased bool) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watch.Applied(s.Committed().Epoch(), leased)
	if w.inProcess && leased {
		w.watch.Connected() // there are no connections, so with a lease, the app counts as having received requests
	}
}

// wrapDial wraps dial, which opens connections for requests: the appWatch records the result of each dial.
// w may be nil.
func (w *appWatch) wrapDial(dial func(context.Context) (net.Conn, error)) func(context.Context) (net.Conn, error) {
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

// dialed records the result of dialing a connection for requests. The caller must call it before it sends
// a byte on the connection.
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

// wrapCheck wraps the health check of the app: the appWatch records each result. instance returns the app
// instance in the response to the last check; nil means that the app reports no instances. w may be nil.
func (w *appWatch) wrapCheck(check func(context.Context) error, instance func() string) func(context.Context) error {
	if w == nil {
		return check
	}
	return func(ctx context.Context) error {
		a := w.begin()
		err := check(ctx)
		reported := ""
		if instance != nil {
			reported = instance()
		}
		w.checked(a, reported, err)
		return err
	}
}
