package adminapi

import (
	"testing"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
)

// drain --wait reports that busy shards wait for their requests.
func TestDrainWaitsForBusyShards(t *testing.T) {
	views := []leader.MemberView{{Node: "b", DefersMoves: true}}
	got := describeDrainWait(ack.NewState(), "b", api.DrainState{Shards: 2}, views)
	if want := "2 busy shards move when their requests have ended, at the latest drain-timeout after the drain began"; got != want {
		t.Errorf("it waits for %q, want %q", got, want)
	}
}
