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

// share returns all, or under the race detector the smaller number race.
func share(all, race int) int { return raceflag.Share(all, race) }
