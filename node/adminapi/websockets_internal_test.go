package adminapi

import (
	"fmt"
	"testing"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/proxy"
	"shardway/shardmap"
)

// A resumable WebSocket counts once, although its client is connected to one node and its upstream connection to another. Other WebSockets
// count at the node of their app.
func TestSocketsArePutTogether(t *testing.T) {
	got := mergeWebSockets(map[string]WebSocketReport{
		"b": {{7, 3, 1, 0, 0}, {9, 1, 0, 1, 0}},
		"a": {{7, 0, 0, 3, 2}, {8, 0, 0, 4, 0}},
	}, []string{"c"})
	if want := "[{7  <nil> 3 1 2} {9  <nil> 1 0 0}]"; fmt.Sprint(got.Shards) != want {
		t.Errorf("shards %v, want %s", got.Shards, want)
	}
	if want := "[{a 0 0 9} {b 4 1 1}]"; fmt.Sprint(got.Nodes) != want {
		t.Errorf("nodes %v, want %s", got.Nodes, want)
	}
	if fmt.Sprint(got.Unresponsive) != "[c]" {
		t.Errorf("silent %v", got.Unresponsive)
	}
}

// With services, the shards of the list have their numbers within their services.
func TestSocketsNameTheirServices(t *testing.T) {
	state, _, err := ack.NewState().Apply(1, 1, ack.EncodeBootstrap("c", 12, ack.DefaultTiming(), ack.ServiceSpec{Name: "chat", Shards: 8}, ack.ServiceSpec{Name: "search", Shards: 4}))
	if err != nil {
		t.Fatal(err)
	}
	list := api.SocketList{Shards: []api.ShardSockets{{Shard: 7}, {Shard: 9}}}
	setServicesOfSockets(&list, state)
	for i, want := range []string{"chat 7", "search 1"} {
		if shard := list.Shards[i]; fmt.Sprint(shard.Service, " ", *shard.ServiceShard) != want {
			t.Errorf("shard %d is %s %d, want %s", shard.Shard, shard.Service, *shard.ServiceShard, want)
		}
	}
}

// A move test of a key of a service omits the same key of other services.
func TestMoveTestSelectsKeyAndShard(t *testing.T) {
	key, one := "alice", uint32(1)
	hash := proxy.WebSocketKeyHash(key)
	for _, tc := range []struct {
		filter api.SocketBreak
		shard  shardmap.Shard
		hash   uint64
		want   bool
	}{
		{api.SocketBreak{All: true}, 5, 7, true},
		{api.SocketBreak{Key: &key}, 5, hash, true},
		{api.SocketBreak{Key: &key}, 5, hash + 1, false},
		{api.SocketBreak{Shard: &one}, 1, 7, true},
		{api.SocketBreak{Shard: &one}, 2, 7, false},
		{api.SocketBreak{Key: &key, Shard: &one}, 1, hash, true},
		{api.SocketBreak{Key: &key, Shard: &one}, 2, hash, false},
	} {
		if got := matchOf(tc.filter)(tc.shard, tc.hash); got != tc.want {
			t.Errorf("%+v, shard %d: %v, want %v", tc.filter, tc.shard, got, tc.want)
		}
	}
}
