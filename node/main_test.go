package node_test

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/racing"
)

func TestMain(m *testing.M) {
	racing.OneProcessor()
	zerolog.TimeFieldFormat = time.RFC3339Nano
	m.Run()
}

// share is how much of something a run does that takes longest: under the race
// detector, the smaller part.
func share(all, race int) int { return racing.Share(all, race) }
