package findings_test

import (
	"testing"

	"shardway/internal/raceflag"
)

func TestMain(m *testing.M) {
	raceflag.OneProcessor()
	m.Run()
}
