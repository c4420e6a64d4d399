package ack

import "shardway/shardmap"

// AppWatch finds out since when the process of a node's app has run, in terms of committed
// maps: a shard that left the node with a later map may have an old copy in that process.
// It goes by what checks of the app meet. It cannot see a restart between two checks that
// neither met a refused connection nor saw another instance.
//
// One process of a node has one AppWatch. The caller serializes the calls.
type AppWatch struct {
	// instance is the last one known; empty means not known.
	instance string
	// seen means that a check of this process met instance; seenAt is the map before it.
	seen   bool
	seenAt shardmap.Epoch
	// first is the last map applied before the first lease of this process. served means
	// that it has had one.
	first  shardmap.Epoch
	served bool
	// fresh means that the app process, or the one that comes next, has had no request yet:
	// so it has served nothing up to the map that was applied last.
	fresh bool
	since shardmap.Epoch
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
	if w.fresh {
		w.since = max(w.since, committed)
	}
	if !w.served {
		w.first, w.served = committed, leased
	}
}

// Refused takes a connection that was refused, of a check or of a request: no process of
// the app listened. Its result may come after connections that began later.
func (w *AppWatch) Refused(a Attempt) {
	w.since, w.fresh = max(w.since, a.committed), w.fresh || a.connections == w.connections
}

// Connected takes a connection for requests, before any byte goes through it.
func (w *AppWatch) Connected() {
	w.connections++
	w.fresh = false
}

// Checked takes a response to a check, with the instance that it names; empty means none.
// It returns true if instance must be stored for the next process of the node.
func (w *AppWatch) Checked(a Attempt, instance string) (store bool) {
	if instance == "" {
		return false
	}
	if store = instance != w.instance; store {
		switch {
		case w.instance == "": // nothing to compare with
		case w.seen && w.served:
			w.since = max(w.since, w.seenAt)
		default:
			// It started after the last check of an earlier process of the node.
			w.since, w.fresh = max(w.since, w.first), w.fresh || !w.served
		}
		w.instance = instance
	}
	w.seen, w.seenAt = true, a.committed
	return store
}

// Since returns the epoch of a committed map that the node had applied before the app
// process served anything that it admitted; zero if that is not known.
func (w *AppWatch) Since() shardmap.Epoch { return w.since }
