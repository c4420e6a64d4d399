package appinstance

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/rs/zerolog"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/node/apphealth"
	"shardway/node/disk"
	"shardway/node/persist"
	"shardway/shardmap"
)

// Watch detects restarts of the app from the results of health checks and connections. An app without hooks may
// keep stale state of a shard that has left the node, so the shard may return only after the app has restarted. The
// methods may be called from any goroutine. nil means that shards may return at any time.
type Watch struct {
	newestState func() *ack.State      // returns the replicated state of this node
	stored      *persist.Value[string] // the last app instance, on disk for the next process of the node
	dir         *disk.Dir
	log         zerolog.Logger
	// HasConns reports whether the proxy has an open connection to the app, which proves that the app process is
	// still running. RenewConns makes the proxy close its idle connections to the app. The caller must set them
	// before the first check.
	HasConns   func() bool
	RenewConns func()
	// inProcess is set if the app runs in this process, so there are no connections to it.
	inProcess bool

	// mu protects the following fields.
	mu       sync.Mutex
	detector *ackagent.AppWatch
}

// Options configures a Watch.
type Options struct {
	Dir         *disk.Dir         // stores the last app process
	NewestState func() *ack.State // returns the replicated state of the node
	// InProcess is set if the app runs in this process, so there are no connections to it.
	InProcess bool
	Log       zerolog.Logger
}

// NewWatch returns the Watch of the first app instance of a node.
func NewWatch(o Options) *Watch {
	instance, err := o.Dir.AppInstance()
	if err != nil {
		o.Log.Warn().Err(err).Msg("app instance not read")
	}
	w := &Watch{newestState: o.NewestState, stored: persist.New("app instance", instance, o.Dir.StoreAppInstance, o.Log), dir: o.Dir, log: o.Log, detector: ackagent.NewAppWatch(instance)}
	if o.InProcess {
		w.inProcess = true
		w.detector = ackagent.NewAppWatch("")
		w.detector.Refused(w.detector.BeginAttempt(0)) // the app starts with this process, so there is no older app process
		w.detector.Checked(w.detector.BeginAttempt(0), "")
	}
	return w
}

// ForInstance returns the Watch of a further app instance.
func (w *Watch) ForInstance(instance shardmap.Instance) *Watch {
	stored, err := w.dir.FurtherAppInstance(int(instance))
	if err != nil {
		w.log.Warn().Err(err).Int("instance", instance.Number()).Msg("app instance not read")
	}
	store := func(reported string) error { return w.dir.StoreFurtherAppInstance(int(instance), reported) }
	name := fmt.Sprintf("app instance of %d", instance.Number())
	return &Watch{newestState: w.newestState, stored: persist.New(name, stored, store, w.log), dir: w.dir, log: w.log, detector: ackagent.NewAppWatch(stored)}
}

// IsInProcess reports whether the app runs in this process.
func (w *Watch) IsInProcess() bool { return w.inProcess }

// Run writes the last app process to the disk after each change, until ctx ends.
func (w *Watch) Run(ctx context.Context) { w.stored.Run(ctx) }

// beginAttempt returns the Attempt of a health check or of a connection for requests. The caller must call it
// before the check or the dial starts, because the result is valid from that time on.
func (w *Watch) beginAttempt() ackagent.Attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.detector.BeginAttempt(w.newestState().Committed().Epoch())
}

// onChecked records the result of a health check. instance is the app instance reported in the response, or empty
// if there was no response or it contained none.
func (w *Watch) onChecked(attempt ackagent.Attempt, instance string, err error) {
	if apphealth.Refused(err) {
		w.onRefused(attempt)
		return
	}
	if err != nil && instance == "" {
		return // the app may or may not have received the check, so the result proves nothing
	}
	w.mu.Lock()
	restarted := w.detector.Checked(attempt, instance)
	w.mu.Unlock()
	if !restarted {
		return
	}
	w.stored.Set(instance)
	w.log.Info().Str("instance", instance).Msg("app instance")
	w.RenewConns() // the previous app process may still respond on its open connections
}

// onRefused records that the app refused the connection of attempt. It ignores the refusal while the app has open
// connections, because an app that has only closed its port has not restarted.
func (w *Watch) onRefused(attempt ackagent.Attempt) {
	if w.HasConns() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.detector.Refused(attempt)
}

// AddTo adds the result of startedAfter to observation. w may be nil.
func (w *Watch) AddTo(observation *ackagent.Observation) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	observation.ReturnsNeedRestart, observation.AppStartedAfter = true, w.detector.StartedAfter()
}

// OnStateApplied records that the agent has applied state, and whether the node has a lease (hasLease). The agent
// calls it. w may be nil.
func (w *Watch) OnStateApplied(state *ack.State, hasLease bool) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.detector.Applied(state.Committed().Epoch(), hasLease)
	if w.inProcess && hasLease {
		w.detector.Connected() // there are no connections to observe, so with a lease, the app counts as having received requests
	}
}

// WrapDial wraps dial, which opens connections for requests, so that the Watch records each result. w may be nil.
func (w *Watch) WrapDial(dial DialFunc) DialFunc {
	if w == nil {
		return dial
	}
	return func(ctx context.Context) (net.Conn, error) {
		attempt := w.beginAttempt()
		conn, err := dial(ctx)
		w.onDialed(attempt, err)
		return conn, err
	}
}

// onDialed records the result of dialing a connection for requests. The caller must call it before it sends
// a byte on the connection.
func (w *Watch) onDialed(attempt ackagent.Attempt, err error) {
	switch {
	case err == nil:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.detector.Connected()
	case apphealth.Refused(err):
		w.onRefused(attempt)
	}
}

// WrapCheck wraps the app's health check so that the Watch records each result. instance returns the instance ID
// reported by the last health check, or an empty string. It is nil if the app reports no instance IDs. w may be
// nil.
func (w *Watch) WrapCheck(check func(context.Context) error, instance func() string) func(context.Context) error {
	if w == nil {
		return check
	}
	return func(ctx context.Context) error {
		attempt := w.beginAttempt()
		err := check(ctx)
		reported := ""
		if instance != nil {
			reported = instance()
		}
		w.onChecked(attempt, reported, err)
		return err
	}
}

// startedAfter returns the epoch of a committed map that the node had applied before the app process served
// any request; zero means unknown. w may be nil.
func (w *Watch) startedAfter() shardmap.Epoch {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.detector.StartedAfter()
}
