package node

import (
	"sync/atomic"

	"github.com/rs/zerolog"
)

// diskStall records whether a write to the disk has stalled. Package consensus isolates a leader whose disk
// has stalled from the other voters. Otherwise it would continue to send heartbeats, and would never be
// replaced.
type diskStall struct {
	path      string // of the data directory
	log       zerolog.Logger
	isStalled atomic.Bool
}

// set records and logs that a disk write has stalled, or that the disk responds again.
func (d *diskStall) set(isStalled bool) {
	d.isStalled.Store(isStalled)
	if !isStalled {
		d.log.Info().Str("path", d.path).Msg("disk responds again")
		return
	}
	d.log.Error().Str("path", d.path).Str("effect", "the other nodes continue without this node").Msg("disk stalled, check or stop node")
}
