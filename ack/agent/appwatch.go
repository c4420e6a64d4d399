package agent

import "shardway/shardmap"

// AppWatch determines since which committed map the app's current process has run. If a shard left
// the node with a later map, that process may hold stale state of the shard. AppWatch uses the
// results of health checks. An app may report its instance, a text that identifies its process, in
// which case it has restarted only if the instance changes. AppWatch cannot detect a restart
// between two checks if no connection is refused and the app reports no instance.
//
// One process of a node has one AppWatch. The caller must serialize the calls.
type AppWatch struct {
	// start is when the current app process started, as far as evidence proves it.
	start appStart
	// startIfRefused is when the app process started, assuming that refused connections mean a
	// restart. It is kept apart from start for an app that reports instances, or might: such an app
	// may close its port and continue, so only a new instance proves a restart.
	startIfRefused appStart

	// instance is the last instance that the app reported; empty means unknown.
	instance string
	// checked is set if a check of this node process has reached the app, so it is known whether
	// the app reports instances.
	checked bool
	// sawInstance is set if a check of this node process has found instance. instanceSeenEpoch is
	// the epoch of the committed map before that check.
	sawInstance       bool
	instanceSeenEpoch shardmap.Epoch

	// hadLease is set if this node process has had a lease. firstLeaseEpoch is the epoch of the
	// last map that it had applied when it got its first lease.
	hadLease        bool
	firstLeaseEpoch shardmap.Epoch

	connectionCount uint64 // number of calls of Connected
}

// appStart is what is known about the start of an app process.
type appStart struct {
	// after is the epoch of a committed map that the node had applied before the app process
	// served anything; zero means that the start is not known.
	after shardmap.Epoch
	// noRequestYet is set while the process, or the next one, has had no request, so that it has
	// served nothing up to the last applied map.
	noRequestYet bool
}

// recordStartAfter records that the process started after the map of the given epoch.
func (s *appStart) recordStartAfter(epoch shardmap.Epoch) { s.after = max(s.after, epoch) }

// merge adds what other knows about the same process.
func (s *appStart) merge(other appStart) {
	s.recordStartAfter(other.after)
	s.noRequestYet = s.noRequestYet || other.noRequestYet
}

// applyMap records that the node has applied the committed map of the given epoch.
func (s *appStart) applyMap(committed shardmap.Epoch) {
	if s.noRequestYet {
		s.recordStartAfter(committed)
	}
}

// Attempt identifies the start of a check or of a connection for requests.
type Attempt struct {
	committedEpoch  shardmap.Epoch // of the map that the node had applied
	connectionCount uint64         // AppWatch.connectionCount at that time
}

// BeginAttempt returns the Attempt of a check or a connection. committed is the epoch of the
// committed map that the node has applied.
func (w *AppWatch) BeginAttempt(committed shardmap.Epoch) Attempt {
	return Attempt{committed, w.connectionCount}
}

// NewAppWatch returns the AppWatch of a new node process. instance is the last instance that an
// earlier process of this node stored; empty means none.
func NewAppWatch(instance string) *AppWatch { return &AppWatch{instance: instance} }

// Applied records that the node has applied the committed map of an epoch. hasLease reports
// whether the node holds a lease. The caller must call Applied before the node admits a request
// under that lease.
func (w *AppWatch) Applied(committed shardmap.Epoch, hasLease bool) {
	w.start.applyMap(committed)
	w.startIfRefused.applyMap(committed)
	if !w.hadLease {
		w.firstLeaseEpoch, w.hadLease = committed, hasLease
	}
}

// Refused records that the app refused the connection of a check or a request, so no process of the
// app was listening. Results may be recorded in a different order than the attempts began. Refused
// must not be called while a connection to the app is open, because the app is then still running.
func (w *AppWatch) Refused(attempt Attempt) {
	noConnectionSince := attempt.connectionCount == w.connectionCount
	nextStart := appStart{after: attempt.committedEpoch, noRequestYet: noConnectionSince}
	mayReportInstances := w.instance != "" || !w.checked
	if mayReportInstances {
		w.startIfRefused.merge(nextStart)
		return
	}
	w.start.merge(nextStart)
}

// Connected records a new connection for requests. The caller must call it before any byte is
// sent.
func (w *AppWatch) Connected() {
	w.connectionCount++
	w.start.noRequestYet = false
	w.startIfRefused.noRequestYet = false
}

// Checked records a successful health check. instance is the instance that the app reported;
// empty means none. It returns true if the caller must store instance for the next process of
// the node.
func (w *AppWatch) Checked(attempt Attempt, instance string) (store bool) {
	isFirstCheck := !w.checked
	w.checked = true
	if instance == "" {
		if isFirstCheck && w.instance == "" {
			w.start.merge(w.startIfRefused) // the app reports no instances, so refused connections prove a restart
		}
		return false
	}
	isNew := instance != w.instance
	if isNew {
		w.instanceChanged(instance)
	}
	w.sawInstance, w.instanceSeenEpoch = true, attempt.committedEpoch
	return isNew
}

// instanceChanged records that the app reports a different instance, so that a new process of it is
// running.
func (w *AppWatch) instanceChanged(instance string) {
	switch {
	case w.instance == "": // nothing to compare with: the app may only have closed its port
		w.startIfRefused = appStart{}
	case w.sawInstance && w.hadLease:
		w.start.recordStartAfter(w.instanceSeenEpoch)
	default: // it started after the last check by an earlier process of the node
		w.start.merge(appStart{after: w.firstLeaseEpoch, noRequestYet: !w.hadLease})
	}
	w.start.merge(w.startIfRefused)
	w.instance = instance
}

// StartedAfter returns the epoch of a committed map that the node had applied before the app
// process served any request; zero means unknown.
func (w *AppWatch) StartedAfter() shardmap.Epoch { return w.start.after }
