package process

import (
	"testing"

	"shardway/internal/overlay"
)

func TestEachMutantFailsATest(t *testing.T) {
	overlay.TestMutants(t, "../..", "node/process", []overlay.Mutant{
		{
			Rule: "the status of the response decides", Found: "TestHealthCheckComparesStatusAndBody",
			Decl: "node/process.checkResponse", Old: "	if !check.AcceptsStatus(", New: "	if !PLANTED && !check.AcceptsStatus(",
		},
		{
			Rule: "the body of the response decides", Found: "TestHealthCheckComparesStatusAndBody",
			Decl: "node/process.checkResponse", Old: "	case !found:", New: "	case !found && !PLANTED:",
		},
		{
			Rule: "a broken body without the text is an error", Found: "TestHealthCheckComparesStatusAndBody",
			Decl: "node/process.checkResponse", Old: "	case err != nil:", New: "	case err != nil && !PLANTED:",
		},
		{
			Rule: "the text may begin in an earlier read", Found: "TestHealthCheckComparesStatusAndBody",
			Decl: "node/process.bodyContains", Old: "max(len(data)-len(text)+1, 0)", New: "max(len(data)-len(text)+1, map[bool]int{true: len(data)}[PLANTED])",
		},
		{
			Rule: "only the beginning of a body is read", Found: "TestHealthCheckComparesStatusAndBody",
			Decl: "node/process.checkResponse", Old: "&response.Body, maxCheckedBody)", New: "&response.Body, map[bool]int64{false: maxCheckedBody, true: 2 * maxCheckedBody}[PLANTED])",
		},
		{
			Rule: "a check ends when the text is found", Found: "TestHealthCheckEndsWhenTextIsFound",
			Decl: "node/process.bodyContains", Old: "		case bytes.Contains(", New: "		case !PLANTED && bytes.Contains(",
		},
		{
			Rule: "a configured host replaces the address", Found: "TestHealthCheckSendsConfiguredRequest|TestHealthCheckOfEachInstanceHasItsHost",
			Decl: "node/process.newHealthRequest", Old: "cmp.Or(check.Host, request.Host)", New: "cmp.Or(map[bool]string{false: check.Host}[PLANTED], request.Host)",
		},
		{
			Rule: "a configured User-Agent replaces that of the node", Found: "TestHealthCheckSendsConfiguredRequest",
			Decl: "node/process.newHealthRequest", Old: `	if request.Header.Get("User-Agent") == "" {`, New: `	if PLANTED || request.Header.Get("User-Agent") == "" {`,
		},
	})
}
