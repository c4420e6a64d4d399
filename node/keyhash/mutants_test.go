package keyhash_test

import (
	"testing"

	"shardway/internal/overlay"
)

func TestEachMutantFailsATest(t *testing.T) {
	const marked = "TestKeysAreMarkedWithinTheirService"
	overlay.TestMutants(t, "../..", "node/keyhash", []overlay.Mutant{
		{
			Rule: "a quarantined key is in the range of its service", Found: marked,
			Decl: "node/keyhash.Hasher.Mark", Old: "uint32(found.First + ", New: "uint32(map[bool]shardmap.Shard{false: found.First}[PLANTED] + ",
		},
		{
			Rule: "the shard of a key depends on the shards of its service", Found: marked,
			Decl: "node/keyhash.Hasher.Mark", Old: "ShardOf(key, found.Shards)", New: "ShardOf(key, map[bool]int{false: found.Shards, true: 12}[PLANTED])",
		},
		{
			Rule: "a key of an unknown service has no shard", Found: marked,
			Decl: "node/keyhash.Hasher.Mark", Old: "if !exists {", New: "if !exists && !PLANTED {",
		},
	})
}
