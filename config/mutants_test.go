package config_test

import (
	"testing"

	"shardway/internal/overlay"
)

func TestEachMutantFailsATest(t *testing.T) {
	const remedies, services = "TestInvalidHealthCheckHasRemedy", "TestInvalidServicesHaveRemedy"
	overlay.TestMutants(t, "..", "config", []overlay.Mutant{
		{
			Rule: "a health check does not look like a request of a client", Found: remedies,
			Decl: "config.checkHealthHeader", Old: `	case strings.HasPrefix(normal, "shardway-"):`, New: `	case strings.HasPrefix(normal, "shardway-") && !PLANTED:`,
		},
		{
			Rule: "a health check has no framing of its own", Found: remedies,
			Decl: "config.checkHealthHeader", Old: `"upgrade"}, normal):`, New: `"upgrade"}, normal) && !PLANTED:`,
		},
		{
			Rule: "a health check has one Host header", Found: remedies,
			Decl: "config.checkHealthHeader", Old: `	case normal == "host":`, New: `	case normal == "host" && !PLANTED:`,
		},
		{
			Rule: "a header value contains no control characters", Found: remedies,
			Decl: "config.checkHealthHeader", Old: "	case !headerrules.IsFieldValue(", New: "	case !PLANTED && !headerrules.IsFieldValue(",
		},
		{
			Rule: "an IPv6 address has brackets", Found: remedies,
			Decl: "config.checkHealthHost", Old: "|| isIPv6 != strings", New: "|| !PLANTED && isIPv6 != strings",
		},
		{
			Rule: "a method is in upper case", Found: remedies,
			Decl: "config.checkHealthMethod", Old: "	case method != upper:", New: "	case method != upper && !PLANTED:",
		},
		{
			Rule: "a range of statuses begins before it ends", Found: remedies,
			Decl: "config.parseStatusRange", Old: "	case firstStatus > lastStatus:", New: "	case firstStatus > lastStatus && !PLANTED:",
		},
		{
			Rule: "an interim status is not accepted", Found: remedies,
			Decl: "config.parseStatus", Old: "status >= minStatus &&", New: "(PLANTED || status >= minStatus) &&",
		},
		{
			Rule: "HEAD has no body", Found: remedies,
			Decl: "config.Config.healthRules", Old: `c.HealthBody == "" ||`, New: `PLANTED || c.HealthBody == "" ||`,
		},
		{
			Rule: "a request needs a path", Found: "TestRequestOfHealthCheckNeedsPath",
			Decl: "config.Config.healthRules", Old: `c.Health != "" ||`, New: `PLANTED || c.Health != "" ||`,
		},
		{
			Rule: "settings that would have no effect next to services are refused", Found: services,
			Decl: "config.Config.refusedSettingProblems", Old: "if c.isSet(name) {", New: "if !PLANTED && c.isSet(name) {",
		},
		{
			Rule: "the services of a node have one answer about hooks", Found: services,
			Decl: "config.Config.hookRulesBetween", Old: "(service.Settings.Hooks ==", New: "PLANTED || (service.Settings.Hooks ==",
		},
		{
			Rule: "two services do not share the hooks of one app", Found: services,
			Decl: "config.Config.hookRulesBetween", Old: "!own.HasSeparateAddress() ||", New: "PLANTED || !own.HasSeparateAddress() ||",
		},
		{
			Rule: "clients cannot call the hooks of a service", Found: services,
			Decl: "config.Config.serviceRules", Old: "!own.hooksShareUpstreamAddress(),", New: "PLANTED || !own.hooksShareUpstreamAddress(),",
		},
		{
			Rule: "a header field may contain a comma", Found: "TestHealthCheckIsRead",
			Decl: "config.setting.asLines", Old: `"\n"`, New: `map[bool]string{false: "\n", true: ","}[PLANTED]`,
		},
	})
}
