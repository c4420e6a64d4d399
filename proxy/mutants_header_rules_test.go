package proxy_test

// mutantsOfHeaderRules returns the mutants of the rules for header fields.
func mutantsOfHeaderRules() []mutant {
	return []mutant{
		{
			rule: "only the node of the app changes a request", found: "TestReroutedRequestIsChangedOnce",
			edits: in("proxy.requestWriter.writeHeader", "found.requestHeaders != nil && attempt.route.Kind == route.Local", "found.requestHeaders != nil && (PLANTED || attempt.route.Kind == route.Local)"),
		},
		{
			rule: "only the node of the app changes a response", found: "TestReroutedRequestIsChangedOnce",
			edits: in("proxy.requestState.applyResponseRules", "kind != route.Local ||", "!PLANTED && kind != route.Local ||"),
		},
		{
			rule: "a 101 response begins another protocol", found: "TestWebSocketObeysHeaderRules",
			edits: in("proxy.requestState.applyResponseRules", "|| res.Status() == http.StatusSwitchingProtocols", "|| !PLANTED && res.Status() == http.StatusSwitchingProtocols"),
		},
		{
			rule: "an app may take another spelling for a removed field", found: "TestHeaderRulesApplyOnce",
			edits: in("internal/fieldname.HasNormal", "if NormalizeByte(name[i]) != normal[i] {", "if NormalizeByte(name[i]) != normal[i] || PLANTED && name[i]|0x20 != normal[i] {"),
		},
		{
			rule: "a rule removes no suffix of another cookie", found: "TestHeaderRulesAndSuffixes",
			edits: in("proxy.removeFields", "result = append(result, replaced[0])", "if !PLANTED {\n\t\t\t\tresult = append(result, replaced[0])\n\t\t\t}"),
		},
		{
			rule: "a trailer cannot replace a field of a rule", found: "TestHeaderRulesRemoveTrailers",
			edits: in("proxy.requestWriter.applyRules", "rw.req.Body.RemoveTrailers(rules.Removed())", "rw.req.Body.RemoveTrailers(rules.Removed()[:len(rules.Removed())*map[bool]int{false: 1}[PLANTED]])"),
		},
		{
			rule: "an event loop changes no headers", found: "TestEventLoopObeysHeaderRules",
			edits: in("proxy.client.isLoopable", "|| c.settings.changesHeaders()", "|| !PLANTED && c.settings.changesHeaders()"),
		},
	}
}
