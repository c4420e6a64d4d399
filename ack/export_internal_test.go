package ack

import "time"

// CutBy returns when what the node admitted under its last lease must be cut.
func (h *Holder) CutBy() time.Duration { return h.cutBy }
