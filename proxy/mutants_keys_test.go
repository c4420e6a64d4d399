package proxy_test

// mutantsOfKeys returns the mutants of the rules by which the key of a request is found.
func mutantsOfKeys() []mutant {
	return []mutant{
		{
			rule: "an ambiguous source never falls back to a minted key", found: "TestMintIsAFallback",
			edits: in("proxy/shardkey.Extractor.FindInBody", `if problemText != "" {`, `if problemText != "" && !PLANTED {`),
		},
		{
			rule: "mint:METHOD applies to its method only", found: "TestMintIsAFallback",
			edits: in("proxy/shardkey.Extractor.keyFromSource", `isOtherMethod := source.Name != "" &&`, `isOtherMethod := !PLANTED && source.Name != "" &&`),
		},
		{
			rule: "a preflight gets no minted key", found: "TestMintIsAFallback",
			edits: in("proxy/shardkey.Extractor.keyFromSource", `if isOtherMethod || x.isPreflight() {`, `if isOtherMethod || !PLANTED && x.isPreflight() {`),
		},
	}
}
