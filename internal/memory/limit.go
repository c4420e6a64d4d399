package memory

import (
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"
)

// limitShare is the share of the container limit that the Go runtime may use. The rest is for
// kernel memory of the container, and for growth between two collections.
const limitShare = 0.9

// Limit sets the soft memory limit of the runtime from the limit of the control group. Near that limit, the garbage
// collector runs more often; without it, the kernel might kill the process first. GOMEMLIMIT takes precedence if it
// is set.
func Limit(log zerolog.Logger) {
	limit, err := memlimit.Set(memlimit.WithRatio(limitShare))
	switch {
	case err != nil:
		log.Debug().Err(err).Msg("memory limit unknown")
	case limit < math.MaxInt64:
		log.Info().Int64("bytes", limit).Msg("memory limit set")
	}
}
