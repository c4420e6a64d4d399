package sizehint_test

import (
	"testing"

	"shardway/internal/overlay"
	"shardway/internal/raceflag"
)

func mutants() []overlay.Mutant {
	const last = "TestResponseSizePredictionUsesLastSize"
	return []overlay.Mutant{
		{
			Rule: "large responses are remembered", Found: last,
			Decl: "proxy/sizehint.Predictor.Record", Old: "	if previous != recorded {", New: "	if previous != recorded && !PLANTED {",
		},
		{
			Rule: "small responses are remembered", Found: last,
			Decl: "proxy/sizehint.Predictor.Record", Old: "	if !large {", New: "	if !large && !PLANTED {",
		},
	}
}

func TestEachMutantFailsATest(t *testing.T) {
	if testing.Short() || raceflag.Detector {
		t.Skip("builds the package with mutants, and without the race detector")
	}
	overlay.TestMutants(t, "../..", "proxy/sizehint", mutants())
}
