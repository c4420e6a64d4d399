package proxy_test

// mutantsOfWrap returns the mutants of the rules for wrapped session ids.
func mutantsOfWrap() []mutant {
	const reading, response, rotation = "TestWrappedValuesAreReadUnambiguously", "TestResponseGetsSuffixOfRequest", "TestSuffixesSurviveRotation"
	const named, renamed = "TestSessionGetsKeyNamedByApp", "TestSessionKeepsKeyThatAppHasReplaced"
	return []mutant{
		{
			rule: "a suffix belongs to its session id", found: reading,
			edits: in("proxy/wrapkey.checksum", "	_, _ = mac.Write(value)\n", "	if !PLANTED {\n		_, _ = mac.Write(value)\n	}\n"),
		},
		{
			rule: "a suffix belongs to its field", found: reading,
			edits: in("proxy/wrapkey.checksum", "	_, _ = mac.Write(header)\n", "	if PLANTED {\n		header = id\n	}\n	_, _ = mac.Write(header)\n"),
		},
		{
			rule: "only the cluster creates suffixes", found: reading,
			edits: in("proxy/wrapkey.Codec.createdKey", "if hmac.Equal(sum[:], parts[idLen:]) {", "if PLANTED || hmac.Equal(sum[:], parts[idLen:]) {"),
		},
		{
			rule: "only the cluster creates suffixes with named keys", found: reading,
			edits: in("proxy/wrapkey.Codec.namedKey", "if hmac.Equal(valid[:], sum[:]) {", "if PLANTED || hmac.Equal(valid[:], sum[:]) {"),
		},
		{
			rule: "clients cannot read named keys", found: named,
			edits: in("proxy/wrapkey.xorNamedKey", "	cipher.NewCTR(block, sum[:]).XORKeyStream(key, key)\n", "	if !PLANTED {\n		cipher.NewCTR(block, sum[:]).XORKeyStream(key, key)\n	}\n"),
		},
		{
			rule: "a session id gets the key that the app has named", found: named,
			edits: in("proxy.router.reroute", "	if exchange.Wrapped != nil {\n", "	if !PLANTED && exchange.Wrapped != nil {\n"),
		},
		{
			rule: "a named key in upper case stays", found: named,
			edits: in("proxy/wrapkey.ParseKey", "	return id, isLowerCase\n", "	return id, isLowerCase || PLANTED\n"),
		},
		{
			rule: "a client with two session ids has one key", found: renamed,
			edits: in("proxy/wrapkey.Request.Rename", "(sources == 1 || !hasSuffix)", "(PLANTED || sources == 1 || !hasSuffix)"),
		},
		{
			rule: "a long named key is in no suffix", found: renamed,
			edits: in("proxy/wrapkey.canWrap", "len(key) <= maxNamedKey }", "(PLANTED || len(key) <= maxNamedKey) }"),
		},
		{
			rule: "a suffix of the previous secret is valid during a rotation", found: rotation,
			edits: in("proxy/wrapkey.Codec.createdKey", "	for _, hmacKey := range c.hmacKeys() {\n", "	for i, hmacKey := range c.hmacKeys() {\n		if PLANTED && i > 0 {\n			break\n		}\n"),
		},
		{
			rule: "the first secret creates suffixes", found: rotation,
			edits: in("proxy/wrapkey.Codec.AppendSuffix", "	hmacKey := c.hmacKeys()[0]\n", "	keys := c.hmacKeys()\n	if PLANTED {\n		keys = keys[len(keys)-1:]\n	}\n	hmacKey := keys[0]\n"),
		},
		{
			rule: "two suffixes of one field with different keys are refused", found: reading,
			edits: in("proxy/wrapkey.Request.Add", "	case !bytes.Equal(state.key, key):\n", "	case !PLANTED && !bytes.Equal(state.key, key):\n"),
		},
		{
			rule: "two suffixes of two fields with different keys are refused", found: reading,
			edits: in("proxy/wrapkey.Request.HasTwoKeys", "first != nil && !bytes.Equal(state.key, first) {", "first != nil && !PLANTED && !bytes.Equal(state.key, first) {"),
		},
		{
			rule: "a value without a suffix next to one with a suffix is refused", found: reading,
			edits: in("proxy/wrapkey.Request.Read", "	case state.hasPlain:\n", "	case !PLANTED && state.hasPlain:\n"),
		},
		{
			rule: "a value that other parsers read differently is refused", found: reading,
			edits: in("proxy/wrapkey.Request.Read", "state.tooMany || state.ambiguous:", "state.tooMany || state.ambiguous && !PLANTED:"),
		},
		{
			rule: "a wrapped cookie next to one in another case is refused", found: reading,
			edits: in("proxy/wrapkey.Request.Read", "	case state.otherCase:\n", "	case !PLANTED && state.otherCase:\n"),
		},
		{
			rule: "a value that the app does not receive is refused", found: reading,
			edits: in("proxy/wrapkey.Request.Read", "	case state.removed:\n", "	case !PLANTED && state.removed:\n"),
		},
		{
			rule: "the number of values to verify is limited", found: reading,
			edits: in("proxy/wrapkey.Request.Add", "	if len(state.values) == maxValues {\n", "	if !PLANTED && len(state.values) == maxValues {\n"),
		},
		{
			rule: "a session id without a valid suffix gets no new key", found: reading,
			edits: in("proxy/shardkey.Extractor.mustCreateWrappedKey", "reading != wrapkey.Absent {", "!PLANTED && reading != wrapkey.Absent {"),
		},
		{
			rule: "a preflight gets no new key", found: "TestPreflightCreatesNoWrappedKey",
			edits: in("proxy/shardkey.Extractor.mustCreateWrappedKey", "|| e.isPreflight() {", "|| !PLANTED && e.isPreflight() {"),
		},
		{
			rule: "the app receives no suffix", found: reading,
			edits: in("proxy.requestWriter.appendAtIngress", "	if rw.exchange.Wrapped != nil {\n", "	if !PLANTED && rw.exchange.Wrapped != nil {\n"),
		},
		{
			rule: "the quotes of a cookie stay", found: reading,
			edits: in("proxy/shardkey.Extractor.readWrappedPair", "(len(text) - len(value)) / 2", "(len(text) - len(value)) / 2\n			if PLANTED {\n				quotesAfter = 0\n			}\n"),
		},
		{
			rule: "a key of the client is no key of a suffix", found: response,
			edits: in("proxy/shardkey.Extractor.findWrapped", "	if found.Minted || found.isWrapped {\n", "	if PLANTED || found.Minted || found.isWrapped {\n"),
		},
		{
			rule: "a renewed session id keeps the key", found: response,
			edits: in("proxy/wrapkey.Request.Bind", "		r.states[i].responseKey = r.states[i].key\n", "		if !PLANTED {\n			r.states[i].responseKey = r.states[i].key\n		}\n"),
		},
		{
			rule: "only sources of the request get its key", found: response,
			edits: in("proxy/wrapkey.Request.setResponseKey", "if r.states[i].isSource {", "if PLANTED || r.states[i].isSource {"),
		},
		{
			rule: "a 304 response stays unchanged", found: response,
			edits: in("proxy/wrapkey.Request.Response", "|| res.Status() == http.StatusNotModified {", "|| !PLANTED && res.Status() == http.StatusNotModified {"),
		},
		{
			rule: "a long cookie stays unchanged", found: response,
			edits: in("proxy/wrapkey.Request.Response", "&& len(wrapped) > maxSetCookie {", "&& !PLANTED && len(wrapped) > maxSetCookie {"),
		},
		{
			rule: "a cookie that is removed stays unchanged", found: response,
			edits: in("proxy/wrapkey.cookieToWrap", "|| isExpired(attributes, now) {", "|| !PLANTED && isExpired(attributes, now) {"),
		},
	}
}
