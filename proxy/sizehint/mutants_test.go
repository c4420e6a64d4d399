package sizehint_test

import (
	"testing"

	"shardway/internal/overlay"
)

func TestEachMutantFailsATest(t *testing.T) {
	const last = "TestResponseSizePredictionUsesLastSize"
	overlay.TestMutants(t, "../..", "proxy/sizehint", []overlay.Mutant{
		{
			Rule: "large responses are remembered", Found: last,
			Decl: "proxy/sizehint.Predictor.Record", Old: "	if previous != recorded {", New: "	if previous != recorded && !PLANTED {",
		},
		{
			Rule: "small responses are remembered", Found: last,
			Decl: "proxy/sizehint.Predictor.Record", Old: "	if !large {", New: "	if !large && !PLANTED {",
		},
	})
}
