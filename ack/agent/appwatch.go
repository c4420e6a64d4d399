package agent

import "shardway/shardmap"

// AppWatch determines since which committed map the present process of the app has run. If a
// shard left the node with a later map, that process may hold an old copy of its state. AppWatch
// uses the results of health checks. An app may report its instance, a text that identifies its
// process. Such an app has restarted only if the instance changes. AppWatch cannot detect a
// restart between two checks if no connection is refused and the app reports no instance.
//
// One process of a node has one AppWatch. The caller must serialize the calls.
type AppWatch struct {
	// instance is the last instance that the app reported; empty means unknown.
	instance string
	// checked means that a check of this process has reached the app, so it is known whether
	// the app reports instances.
	checked bool
	// sawInstance means that a check of this process has reached instance. instanceSeenEpoch is the
	// epoch of the committed map before that check.
	sawInstance       bool
	instanceSeenEpoch shardmap.Epoch
	// firstLeaseEpoch is the epoch of the last map applied before the first lease of this process.
	// hadLease means that this process has had a lease.
	firstLeaseEpoch shardmap.Epoch
	hadLease        bool
	// noRequestYet means that the app process, or the next one, has had no request yet, so it has
	// served nothing up to the map that was applied last.
	noRequestYet bool
	startedAfter shardmap.Epoch
	// ifRestarted contains the values of since and unused if the app restarted when
	// connections were refused. It is for an app that reports instances, or may do so: such an
	// app may close its port and continue, so only a new instance proves a restart.
	ifRestarted struct {
		since shardmap.Epoch
		fresh bool
	}
	// connectionCount counts the calls of Connected.
	connectionCount uint64
}

// Attempt identifies the start of a check or of a connection for requests.
type Attempt struct {
	committedEpoch  shardmap.Epoch
	connectionCount uint64
}

// BeginAttempt returns the Attempt of a check or a connection. committed is the epoch of the
// committed map that the node has applied.
func (w *AppWatch) BeginAttempt(committed shardmap.Epoch) Attempt {
	return Attempt{committed, w.connectionCount}
}

// NewAppWatch returns the AppWatch of a new process. instance is the last instance that an
// earlier process of this node stored; empty means none.
func NewAppWatch(instance string) *AppWatch { return &AppWatch{instance: instance} }

// Applied records that the node has applied the committed map of an epoch. leased reports
// whether the node holds a lease. The caller must call Applied before the node admits a request
// under that lease.
func (w *AppWatch) Applied(committed shardmap.Epoch, leased bool) {
	if w.noRequestYet {
		w.startedAfter = max(w.startedAfter, committed)
	}
	if w.ifRestarted.fresh {
		w.ifRestarted.since = max(w.ifRestarted.since, committed)
	}
	if !w.hadLease {
		w.firstLeaseEpoch, w.hadLease = committed, leased
	}
}

// Refused records that the app refused the connection of a check or a request, so no process of
// the app was listening. Results may be recorded in another order than the attempts began. The
// caller must not call Refused while a connection to the app is open, because the app then
// still runs.
func (w *AppWatch) Refused(attempt Attempt) {
	fresh := attempt.connectionCount == w.connectionCount // the next process has had no request
	if w.instance != "" || !w.checked {
		w.ifRestarted.since, w.ifRestarted.fresh = max(w.ifRestarted.since, attempt.committedEpoch), w.ifRestarted.fresh || fresh
		return
	}
	w.startedAfter, w.noRequestYet = max(w.startedAfter, attempt.committedEpoch), w.noRequestYet || fresh
}

// Connected records a new connection for requests. The caller must call it before any byte is
// sent.
func (w *AppWatch) Connected() {
	w.connectionCount++
	w.noRequestYet = false
	w.ifRestarted.fresh = false
}

// Checked records a successful health check. instance is the instance that the app reported;
// empty means none. It returns true if the caller must store instance for the next process of
// the node.
func (w *AppWatch) Checked(attempt Attempt, instance string) (store bool) {
	checkedBefore := w.checked
	w.checked = true
	if instance == "" {
		if !checkedBefore && w.instance == "" {
			w.startedAfter, w.noRequestYet = max(w.startedAfter, w.ifRestarted.since), w.noRequestYet || w.ifRestarted.fresh
		}
		return false
	}
	if store = instance != w.instance; store {
		switch {
		case w.instance == "": // nothing to compare with: it may have closed its port only
			w.ifRestarted.since, w.ifRestarted.fresh = 0, false
		case w.sawInstance && w.hadLease:
			w.startedAfter = max(w.startedAfter, w.instanceSeenEpoch)
		default:
			// It started after the last check of an earlier process of the node.
			w.startedAfter, w.noRequestYet = max(w.startedAfter, w.firstLeaseEpoch), w.noRequestYet || !w.hadLease
		}
		w.startedAfter, w.noRequestYet = max(w.startedAfter, w.ifRestarted.since), w.noRequestYet || w.ifRestarted.fresh
		w.instance = instance
	}
	w.sawInstance, w.instanceSeenEpoch = true, attempt.committedEpoch
	return store
}

// StartedAfter returns the epoch of a committed map that the node had applied before the app
// process served anything that it admitted; zero if that is not known.
func (w *AppWatch) StartedAfter() shardmap.Epoch { return w.startedAfter }
