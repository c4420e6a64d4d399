package node_test

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/raceflag"
)

func TestMain(m *testing.M) {
	raceflag.OneProcessor()
	zerolog.TimeFieldFormat = time.RFC3339Nano
	m.Run()
}

// share is how much of something a run does that takes longest: under the race
// detector, the smaller part.
func share(all, race int) int { return raceflag.Share(all, race) }
