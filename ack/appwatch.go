package ack

import "shardway/shardmap"

// AppWatch finds out since when the process of a node's app has run, in terms of committed
// maps: a shard that left the node with a later map may have an old copy in that process.
// It goes by what checks of the app meet. An app that has named its instance once restarts
// only if the name changes. It cannot see a restart between two checks that
// neither met a refused connection nor saw another instance.
//
// One process of a node has one AppWatch. The caller serializes the calls.
type AppWatch struct {
	// instance is the last one known; empty means not known.
	instance string
	// met means that a check of this process met the app, so it is known whether the app names
	// its instances.
	checked bool
	// seen means that a check of this process met instance; seenAt is the map before it.
	seen   bool
	seenAt shardmap.Epoch
	// first is the last map applied before the first lease of this process. served means
	// that it has had one.
	firstMap shardmap.Epoch
	served   bool
	// fresh means that the app process, or the one that comes next, has had no request yet:
	// so it has served nothing up to the map that was applied last.
	unused bool
	since  shardmap.Epoch
	// refused says what since and fresh would be if the app had restarted when connections
	// were refused. It is for an app that names its instances, or may do so: such an app may
	// close its port and go on, so only another name shows that it has restarted.
	ifRestarted struct {
		since shardmap.Epoch
		fresh bool
	}
	// connections counts the calls of Connected.
	connections uint64
}

// Attempt is the begin of a check or of a connection for requests.
type Attempt struct {
	committed   shardmap.Epoch
	connections uint64
}

// Begin returns the begin of a check or of a connection. committed is the epoch of the
// committed map that the node has applied by now.
func (w *AppWatch) Begin(committed shardmap.Epoch) Attempt { return Attempt{committed, w.connections} }

// NewAppWatch returns the watch of a new process. instance is the last one that an earlier
// process of this node knew, empty if none.
func NewAppWatch(instance string) *AppWatch { return &AppWatch{instance: instance} }

// Applied takes the epoch of the committed map that the node has applied, and whether it
// holds a lease, before it admits a request by that lease.
func (w *AppWatch) Applied(committed shardmap.Epoch, leased bool) {
	if w.unused {
		w.since = max(w.since, committed)
	}
	if w.ifRestarted.fresh {
		w.ifRestarted.since = max(w.ifRestarted.since, committed)
	}
	if !w.served {
		w.firstMap, w.served = committed, leased
	}
}

// Refused takes a connection that was refused, of a check or of a request: no process of
// the app listened. Its result may come after connections that began later. The caller must
// not call it as long as a connection to the app is open, because the app then runs on.
func (w *AppWatch) Refused(a Attempt) {
	fresh := a.connections == w.connections // the next process has had no request
	if w.instance != "" || !w.checked {
		w.ifRestarted.since, w.ifRestarted.fresh = max(w.ifRestarted.since, a.committed), w.ifRestarted.fresh || fresh
		return
	}
	w.since, w.unused = max(w.since, a.committed), w.unused || fresh
}

// Connected takes a connection for requests, before any byte goes through it.
func (w *AppWatch) Connected() {
	w.connections++
	w.unused = false
	w.ifRestarted.fresh = false
}

// Checked takes a response to a check, with the instance that it names; empty means that the
// app is well and names none.
// It returns true if instance must be stored for the next process of the node.
func (w *AppWatch) Checked(a Attempt, instance string) (store bool) {
	met := w.checked
	w.checked = true
	if instance == "" {
		if !met && w.instance == "" {
			w.since, w.unused = max(w.since, w.ifRestarted.since), w.unused || w.ifRestarted.fresh
		}
		return false
	}
	if store = instance != w.instance; store {
		switch {
		case w.instance == "": // nothing to compare with: it may have closed its port only
			w.ifRestarted.since, w.ifRestarted.fresh = 0, false
		case w.seen && w.served:
			w.since = max(w.since, w.seenAt)
		default:
			// It started after the last check of an earlier process of the node.
			w.since, w.unused = max(w.since, w.firstMap), w.unused || !w.served
		}
		w.since, w.unused = max(w.since, w.ifRestarted.since), w.unused || w.ifRestarted.fresh
		w.instance = instance
	}
	w.seen, w.seenAt = true, a.committed
	return store
}

// Since returns the epoch of a committed map that the node had applied before the app
// process served anything that it admitted; zero if that is not known.
func (w *AppWatch) Since() shardmap.Epoch { return w.since }
