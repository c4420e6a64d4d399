package hooks_test

import (
	"testing"

	"shardway/internal/overlay"
)

func TestEachMutantFailsATest(t *testing.T) {
	const numbers, otherApp = "TestCallsCountShardsWithinTheService", "TestCallReachesNoAppOfAnotherService"
	overlay.TestMutants(t, "../..", "node/hooks", []overlay.Mutant{
		{
			Rule: "an app gets no call for another service", Found: otherApp,
			Decl: "node/hooks.HTTP.checkService", Old: "|| appService == callService {", New: "|| PLANTED || appService == callService {",
		},
		{
			Rule: "a call that was not sent does not delay a move", Found: otherApp,
			Decl: "node/hooks.HTTP.Do", Old: "Refused: true", New: "Refused: !PLANTED",
		},
		{
			Rule: "an app gets shard numbers within its service", Found: numbers,
			Decl: "node/hooks.shardsInService", Old: "call.First == 0 {", New: "call.First == 0 || PLANTED {",
		},
		{
			Rule: "the shards of the caller do not change", Found: numbers,
			Decl: "node/hooks.shardsInService", Old: "call.Shards = slices.Clone(call.Shards)", New: "if !PLANTED {\ncall.Shards = slices.Clone(call.Shards)\n}",
		},
		{
			Rule: "a response counts shards within the service", Found: numbers,
			Decl: "node/hooks.mapShards", Old: "first == 0 {", New: "first == 0 || PLANTED {",
		},
		{
			Rule: "each call has the name of the service", Found: numbers,
			Decl: "node/hooks.HTTP.setHeaders", Old: `h.Service != "" {`, New: `h.Service != "" && !PLANTED {`,
		},
		{
			Rule: "a function counts shards within the service", Found: "TestFunctionCountsShardsWithinTheService",
			Decl: "node/hooks.Func.Do", Old: "shardsInService(call)", New: "map[bool]agent.HookCall{true: call, false: shardsInService(call)}[PLANTED]",
		},
	})
}
