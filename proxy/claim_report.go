package proxy

import (
	"sync"

	"github.com/rs/zerolog"
)

// claimReporter logs, once per source, that a token's claim can never be a key. Its methods may be
// called from any goroutine.
type claimReporter struct {
	log      *zerolog.Logger
	reported sync.Map // by the text of the source
}

// report logs that the claim of a source is an array or an object.
func (reporter *claimReporter) report(source, structure string) {
	if _, isReported := reporter.reported.LoadOrStore(source, struct{}{}); !isReported {
		reporter.log.Warn().Str("source", source).Str("claim_type", structure).Msg("claim cannot be a key")
	}
}
