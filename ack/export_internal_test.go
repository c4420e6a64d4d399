package ack

import "time"

// LeaseTerm returns the term of the leader whose lease is in force, zero without one.
func (a *Agent) LeaseTerm() uint64 { return a.holder.Term() }

// CutBy returns when what the node admitted under its last lease must be cut.
func (a *Agent) CutBy() time.Duration { return a.holder.cutBy }
