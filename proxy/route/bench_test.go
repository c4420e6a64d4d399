package route_test

import (
	"testing"

	"shardway/proxy/route"
	"shardway/shardmap"
)

// BenchmarkShardOf measures how the shard of a key is found, without and with services.
func BenchmarkShardOf(b *testing.B) {
	spec := route.TableSpec{Shards: 1024, Route: func(shardmap.Shard) route.Route { return route.Route{Kind: route.Local, Epoch: 1} }}
	plain := route.NewTable(spec)
	spec.Services = []route.Service{{Name: "chat", Shards: 512}, {Name: "search", First: 512, Shards: 512}}
	several := route.NewTable(spec)
	key := []byte("alice@example.com")
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			plain.Route(shardmap.ShardOfBytes(key, plain.Shards()))
		}
	})
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			shard, _ := plain.ShardOf("", key)
			plain.Route(shard)
		}
	})
	b.Run("services", func(b *testing.B) {
		for b.Loop() {
			shard, _ := several.ShardOf("search", key)
			several.Route(shard)
		}
	})
}
