package proxy_test

// mutantsOfKeys returns the mutants of the rules by which the key of a request is found.
func mutantsOfKeys() []mutant {
	return []mutant{
		{
			rule: "an ambiguous source never falls back to a minted key", found: "TestMintIsAFallback",
			edits: in("proxy/shardkey.Extractor.findInSources", `if problemText != "" {`, `if problemText != "" && !PLANTED {`),
		},
		{
			rule: "mint:METHOD applies to its method only", found: "TestMintIsAFallback",
			edits: in("proxy/shardkey.Extractor.keyFromSource", `isOtherMethod := source.Name != "" &&`, `isOtherMethod := !PLANTED && source.Name != "" &&`),
		},
		{
			rule: "a preflight gets no minted key", found: "TestMintIsAFallback",
			edits: in("proxy/shardkey.Extractor.keyFromSource", `if isOtherMethod || e.isPreflight() {`, `if isOtherMethod || !PLANTED && e.isPreflight() {`),
		},
		{
			rule: "a path with a dot segment has no key of a pattern", found: "TestKeysOfPatternsTokensAndJoinedSources",
			edits: in("keysource.Pattern.Key", `parsed.hasDotSegment {`, `parsed.hasDotSegment && !PLANTED {`),
		},
		{
			rule: "apps may split a segment with unusual bytes", found: "TestKeysOfPatternsTokensAndJoinedSources",
			edits: in("keysource.Pattern.match", `if reader.isUnusual {`, `if reader.isUnusual && !PLANTED {`),
		},
		{
			rule: "some apps ignore the case of literals", found: "TestKeysOfPatternsTokensAndJoinedSources",
			edits: in("keysource.patternSegment.match", `if strings.EqualFold(string(before), s.prefix) &&`, `if !PLANTED && strings.EqualFold(string(before), s.prefix) &&`),
		},
		{
			rule: "a path that matches in several ways is refused", found: "TestKeysOfPatternsTokensAndJoinedSources",
			edits: in("keysource.Pattern.matchMany", `case textResult == ambiguous || textResult`, `case textResult == ambiguous || !PLANTED && textResult`),
		},
		{
			rule: "all parts of a joined key are needed", found: "TestKeysOfPatternsTokensAndJoinedSources",
			edits: in("proxy/shardkey.Extractor.joinedKey", `if needsBody || problemText != "" || part == nil {`, `if needsBody || problemText != "" || part == nil && !PLANTED {`),
		},
		{
			rule: "a key in a trailer is dropped", found: "TestKeysInTrailersAreDropped",
			edits: in("proxy/h1.Body.addTrailer", "|| containsLookalike(b.forbiddenTrailers, name)", "|| !PLANTED && containsLookalike(b.forbiddenTrailers, name)"),
		},
		{
			rule: "the body is read only if all other parts of a joined key are there", found: "TestJoinedKeysInBodies",
			edits: in("proxy/shardkey.Extractor.joinedKey", `if body == nil && source.ReadsBody() {`, `if !PLANTED && body == nil && source.ReadsBody() {`),
		},
		{
			rule: "different parts give different joined keys", found: "TestKeysOfPatternsTokensAndJoinedSources",
			edits: in("keysource.AppendPart", `case '+':`, `case map[bool]byte{true: 0xff, false: '+'}[PLANTED]:`),
		},
		{
			rule: "two tokens in subprotocols are refused", found: "TestKeysOfPatternsTokensAndJoinedSources",
			edits: in("proxy/shardkey.Extractor.subprotocolToken", `case token != nil &&`, `case !PLANTED && token != nil &&`),
		},
		{
			rule: "apps may decode a token in a cookie", found: "TestKeysOfPatternsTokensAndJoinedSources",
			edits: in("proxy/shardkey.isEncodedToken", `return err == nil &&`, `return !PLANTED && err == nil &&`),
		},
		{
			rule: "some apps ignore the case of routes", found: "TestAmbiguousKeysAreRejected",
			edits: in("keysource.route.precedes", `return r != nil &&`, `return !PLANTED && r != nil &&`),
		},
		{
			rule: "some apps remove Unicode white space around cookies", found: "TestAmbiguousKeysAreRejected",
			edits: in("proxy/shardkey.isReadDifferently", `if isExact && len(trimSpace(text)) < len(text) ||`, `if !PLANTED && isExact && len(trimSpace(text)) < len(text) ||`),
		},
		{
			rule: "some apps change the names of cookies", found: "TestAmbiguousKeysAreRejected",
			edits: in("proxy/shardkey.isReadDifferently", `!isExact && isCookieLookalike(cookieName, name) {`, `!PLANTED && !isExact && isCookieLookalike(cookieName, name) {`),
		},
		{
			rule: "some apps split cookies at commas", found: "TestAmbiguousKeysAreRejected",
			edits: in("proxy/shardkey.isReadDifferently", `if hasCookieAfterComma(pair, name) {`, `if !PLANTED && hasCookieAfterComma(pair, name) {`),
		},
		{
			rule: "some apps ignore the case of cookie names", found: "TestAmbiguousKeysAreRejected",
			edits: in("proxy/shardkey.Extractor.cookieKey", `if key != nil && e.hasCookieInOtherCase(name, key) {`, `if !PLANTED && key != nil && e.hasCookieInOtherCase(name, key) {`),
		},
		{
			rule: "all nodes use the sticky cookie of the key configuration of the cluster", found: "TestStickyCookieScopeIsThatOfTheCluster",
			edits: in("proxy.reply.appendCookie", "&reply.serviceSettings().StickyCookie\n", "&reply.serviceSettings().StickyCookie\n\tif PLANTED {\n\t\tscope = reply.settings.Keys.CookieScope(\"\")\n\t}\n"),
		},
		{
			rule: "a node reads no sticky cookie of another name", found: "TestStickyCookieHasConfiguredNameAndAttributes",
			edits: in("proxy/shardkey.Extractor.stickyKey", `e.cookieKey(e.rules.cookie.Name)`, `e.cookieKey(map[bool]string{false: e.rules.cookie.Name, true: "Shardway-Key"}[PLANTED])`),
		},
		{
			rule: "the name of the sticky cookie requires the attribute that browsers demand", found: "TestStickyCookieScopeIsThatOfTheCluster",
			edits: in("proxy.reply.appendCookie", `scope.RequiresSecure() ||`, `!PLANTED && scope.RequiresSecure() ||`),
		},
		{
			rule: "an app may match the settings of a route in another case", found: "TestRouteHasOwnKeyLimit",
			edits: in("keysource.Prefixes.Match", `case otherCase == "" && `, `case !PLANTED && otherCase == "" && `),
		},
	}
}
