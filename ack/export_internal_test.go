package ack

import "time"

// LeaseTerm returns the term of the leader whose lease is in force, zero without one.
func (a *Agent) LeaseTerm() uint64 { return a.holder.Term() }

// CutBy returns when what the node admitted under its last lease must be cut.
func (a *Agent) CutBy() time.Duration { return a.holder.cutBy }

// Releases returns what the last acknowledgement gives up shards with, nil for nothing.
func (a *Agent) Releases() *Releases {
	if a.hooks == nil {
		return nil
	}
	return a.hooks.releases
}

// Taken reports that a leader has said that it has that.
func (a *Agent) Taken() bool { return a.hooks != nil && a.hooks.taken }
