package keysource_test

import (
	"testing"

	"shardway/internal/overlay"
)

func TestEachMutantFailsATest(t *testing.T) {
	const ambiguous, find, invalid = "TestPathsOfTwoServicesAreAmbiguous", "TestRequestsFindTheirService", "TestInvalidHostsHaveNoService"
	overlay.TestMutants(t, "..", "keysource", []overlay.Mutant{
		{
			Rule: "a path of two services is ambiguous", Found: ambiguous,
			Decl: "keysource.serviceSearch.in", Old: "search.ambiguous = true", New: "search.ambiguous = !PLANTED",
		},
		{
			Rule: "apps may resolve a dot segment", Found: ambiguous,
			Decl: "keysource.ParsedPath.isBelow", Old: "case r.hasDotSegment:", New: "case r.hasDotSegment && !PLANTED:",
		},
		{
			Rule: "apps may end a path at an invalid byte, or remove the byte", Found: ambiguous,
			Decl: "keysource.ParsedPath.isBelow", Old: "case r.hasInvalidByte:", New: "case r.hasInvalidByte && !PLANTED:",
		},
		{
			Rule: "apps may end a path at an escaped question mark", Found: ambiguous,
			Decl: "keysource.ParsedPath.isBelow", Old: "return r.mayEndAfter(prefix), false", New: "return !PLANTED && r.mayEndAfter(prefix), false",
		},
		{
			Rule: "brackets contain an address", Found: invalid,
			Decl: "keysource.HostName", Old: "return name, isAddressLiteral(name)", New: "return name, PLANTED || isAddressLiteral(name)",
		},
		{
			Rule: "some apps ignore the case of the routes of services", Found: ambiguous,
			Decl: "keysource.ParsedPath.isBelow", Old: "case !hasPathPrefixInOtherCase(prefix, r.decoded):", New: "case !hasPathPrefixInOtherCase(prefix, r.decoded), PLANTED && !hasPathPrefix(prefix, r.decoded):",
		},
		{
			Rule: "apps differ in unusual slashes and parameters", Found: ambiguous,
			Decl: "keysource.ParsedPath.isBelow", Old: "&& r.agreesOn(prefix)", New: "&& (PLANTED || r.agreesOn(prefix))",
		},
		{
			Rule: "a longer wildcard precedes a shorter one", Found: find,
			Decl: "keysource.Services.Match", Old: "dot := bytes.IndexByte(rest, '.')", New: "dot := map[bool]func([]byte, byte) int{true: bytes.LastIndexByte, false: bytes.IndexByte}[PLANTED](rest, '.')",
		},
		{
			Rule: "a host with a wrong port is refused", Found: invalid,
			Decl: "keysource.HostName", Old: "if !isPort(", New: "if !PLANTED && !isPort(",
		},
		{
			Rule: "a host has no empty label", Found: invalid,
			Decl: "keysource.checkHostName", Old: "case c == '.' && !afterDot:", New: "case c == '.' && (PLANTED || !afterDot):",
		},
		{
			Rule: "a long host does not cost much", Found: invalid,
			Decl: "keysource.checkHostName", Old: "&& len(name) <= maxHost", New: "&& (PLANTED || len(name) <= maxHost)",
		},
		{
			Rule: "two services have no route in common", Found: "TestInvalidServiceRoutesAreRejected",
			Decl: "keysource.Services.addRoutes", Old: "case !isDuplicate:", New: "case !isDuplicate || PLANTED:",
		},
		{
			Rule: "a field that one service wraps is wrapped in all services", Found: "TestInvalidServicesAreRejected",
			Decl: "keysource.NewServices", Old: "problems = services.joinWrapped(list)", New: "if joined := services.joinWrapped(list); !PLANTED {\nproblems = joined\n}",
		},
		{
			Rule: "settings next to the services are refused", Found: "TestCanonicalFormOfServices",
			Decl: "keysource.Config.canonicalServices", Old: "if len(c.Sources) > 0 ||", New: "if !PLANTED && len(c.Sources) > 0 ||",
		},
	})
}
