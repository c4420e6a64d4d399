package proxy_test

// mutantsOfBodyKeys returns the mutants of the rules by which a key is read from a body.
func mutantsOfBodyKeys() []mutant {
	return []mutant{
		{
			rule: "an object has no name twice", found: "TestAmbiguousBodiesAreRejected",
			edits: in("keysource/jsonkey.scanner.scanObject", "if hasDuplicate(s.hashes[firstName:]) {", "if !PLANTED && hasDuplicate(s.hashes[firstName:]) {"),
		},
		{
			rule: "a name on the path has one spelling", found: "TestAmbiguousBodiesAreRejected",
			edits: in("keysource/jsonkey.scanner.scanObject", "if onPath && !isWanted &&", "if !PLANTED && onPath && !isWanted &&"),
		},
		{
			rule: "a document has no trailing data", found: "TestAmbiguousBodiesAreRejected",
			edits: in("keysource/jsonkey.find", "s.pos < len(s.text) {", "s.pos < len(s.text) && !PLANTED {"),
		},
		{
			rule: "all elements of a batch have one key", found: "TestAmbiguousBodiesAreRejected",
			edits: in("keysource/jsonkey.scanner.scanBatch", "if len(s.key) == 0 ||", "if !PLANTED && len(s.key) == 0 || !PLANTED &&"),
		},
		{
			rule: "a number has one common spelling", found: "TestAmbiguousBodiesAreRejected",
			edits: in("keysource/jsonkey.scanner.scanNumber", "if !isPlainNumber(number) {", "if !PLANTED && !isPlainNumber(number) {"),
		},
		{
			rule: "a nested document is limited", found: "TestAmbiguousBodiesAreRejected",
			edits: in("keysource/jsonkey.scanner.enter", "if s.depth > maxDepth {", "if s.depth > maxDepth && !PLANTED {"),
		},
		{
			rule: "a request has one Content-Type", found: "TestAmbiguousBodiesAreRejected",
			edits: in("proxy/shardkey.Extractor.bodyFormat", "lines > 1 {", "lines > 1 && !PLANTED {"),
		},
		{
			rule: "the app receives the Content-Type by which the body is read", found: "TestAmbiguousBodiesAreRejected",
			edits: in("proxy/shardkey.Extractor.bodyFormat", "if e.Request.IsConnectionOption(i) {", "if !PLANTED && e.Request.IsConnectionOption(i) {"),
		},
		{
			rule: "the parameters of a Content-Type are clear", found: "TestAmbiguousBodiesAreRejected",
			edits: in("proxy/shardkey.formatOf", "hasParameters && !areClearParameters(parameters)", "!PLANTED && hasParameters && !areClearParameters(parameters)"),
		},
		{
			rule: "a multipart form is refused", found: "TestAmbiguousBodiesAreRejected",
			edits: in("proxy/shardkey.Extractor.isBodyReadable", "case isForm && format", "case !PLANTED && isForm && format"),
		},
		{
			rule: "a compressed body is not read", found: "TestKeysAreFoundInBodies",
			edits: in("proxy/shardkey.Extractor.hasContentEncoding", "isEncoded = true", "isEncoded = !PLANTED"),
		},
		{
			rule: "a field of a form has one spelling", found: "TestAmbiguousBodiesAreRejected",
			edits: in("proxy/shardkey.formKey", "if hasLookalikeField(body, name) {", "if !PLANTED && hasLookalikeField(body, name) {"),
		},
		{
			rule: "the value of a form field has one reading", found: "TestAmbiguousBodiesAreRejected",
			edits: in("proxy/shardkey.formKey", "if hasUnclearValue(body, name) {", "if !PLANTED && hasUnclearValue(body, name) {"),
		},
		{
			rule: "query and form have one key", found: "TestFormAndQueryHaveOneKey",
			edits: in("proxy/shardkey.Extractor.bodyKey", `if problemText == "" && key != nil &&`, `if !PLANTED && problemText == "" && key != nil &&`),
		},
		{
			rule: "a key in a body is limited", found: "TestLongKeysInBodiesAreRejected",
			edits: in("proxy/shardkey.Extractor.bodyKey", "if len(key) > maxBodyKey {", "if len(key) > maxBodyKey && !PLANTED {"),
		},
		{
			rule: "a part of a body has no key", found: "TestKeysAreFoundInBodies",
			edits: in("proxy/shardkey.Extractor.bodyKey", "case !body.IsComplete:", "case !body.IsComplete && !PLANTED:"),
		},
		{
			rule: "bodies that are read for a key count as memory", found: "TestBodiesWithKeysShareMemoryLimit",
			edits: in("proxy/reqbody.Body.readUpTo", "counted = body.CountMemory(counted, 0, limit)", "if !PLANTED {\n			counted = body.CountMemory(counted, 0, limit)\n		}"),
		},
		{
			rule: "an event loop reads no body for a key", found: "TestBodiesWithKeysLeaveEventLoop",
			edits: in("proxy.client.startAttempt", "found.NeedsBody ||", "!PLANTED && found.NeedsBody ||"),
		},
		{
			rule: "a client that holds its body back is asked for it", found: "TestKeysAreFoundInBodies",
			edits: in("proxy.router.bufferBodyForKey", "if len(body.Buffered) == 0 &&", "if !PLANTED && len(body.Buffered) == 0 &&"),
		},
		{
			rule: "the limit of the key configuration applies", found: "TestQueuedBodiesAreReadAfterKeyChange",
			edits: in("proxy/shardkey.Keys.BodyLimit", "return cmp.Or(k.bodyLimit, bufferSize)", "if PLANTED {\n		return bufferSize\n	}\n	return cmp.Or(k.bodyLimit, bufferSize)"),
		},
	}
}
