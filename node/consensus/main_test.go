package consensus_test

import (
	"testing"

	"shardway/internal/racing"
)

func TestMain(m *testing.M) {
	racing.OneProcessor()
	m.Run()
}
