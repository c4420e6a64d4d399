package memory

import (
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"
)

// share is how much of what the container may have is Go's to fill: the
// rest is for stacks of the kernel's making, and for the bursts between two
// collections.
const share = 0.9

// Limit lets the garbage collector know of the limit of this process's
// control group: it works harder near it, instead of being killed beyond it. A
// GOMEMLIMIT of the operator's stays.
func Limit(log zerolog.Logger) {
	limit, err := memlimit.Set(memlimit.WithRatio(share))
	switch {
	case err != nil:
		log.Debug().Err(err).Msg("memory limit unknown")
	case limit < math.MaxInt64:
		log.Info().Int64("bytes", limit).Msg("memory limit set")
	}
}
