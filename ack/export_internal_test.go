package ack

import "time"

// CutBy returns when what the node admitted under its last lease must be cut.
func (a *Agent) CutBy() time.Duration { return a.holder.cutBy }
