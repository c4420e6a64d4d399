package ack

import (
	"cmp"

	"shardway/shardmap"
)

// LeaseTerm returns the term of the leader whose lease is in force, zero without one. An
// answer may have shown that the process stood still, which ends the lease before its time
// is over; requests know with the look that follows at once.
func (a *Agent) LeaseTerm() uint64 { return cmp.Or(a.holder.Term(), a.inForce) }

// Releases returns what the last acknowledgement gives up shards with, nil for nothing.
func (a *Agent) Releases() *Releases {
	if a.hooks == nil {
		return nil
	}
	return a.hooks.releases
}

// Serves reports whether the app has the shard under the epoch, and may be asked for it.
func (a *Agent) Serves(s shardmap.Shard, e shardmap.Epoch) bool {
	return a.hooks != nil && int(s) < len(a.hooks.acquired) && a.hooks.acquired[s] == e && e > 0
}

// Taken reports that a leader has said that it has that.
func (a *Agent) Taken() bool { return a.hooks != nil && a.hooks.taken }

// EchoTerm returns the term of the leader that answered last.
func (a *Agent) EchoTerm() uint64 { return a.echoTerm }
