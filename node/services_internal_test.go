package node

import (
	"strings"
	"testing"

	"shardway/ack"
)

func TestServiceWithOtherNumberOfShardsIsRefused(t *testing.T) {
	state, _, err := ack.NewState().Apply(1, 1, ack.EncodeBootstrap("c", 12, ack.DefaultTiming(), ack.ServiceSpec{Name: "chat", Shards: 8}, ack.ServiceSpec{Name: "search", Shards: 4}))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		services []ack.ServiceSpec
		want     string // empty means no error
	}{
		{nil, ""},
		{[]ack.ServiceSpec{{Name: "chat", Shards: 8}, {Name: "new", Shards: 1}}, ""},
		{[]ack.ServiceSpec{{Name: "chat", Shards: 4}, {Name: "search", Shards: 8}}, "service chat has 8 shards in cluster c, but services.chat.shards is 4: the number of shards of a service cannot change; set it to 8, or add a service with another name"},
	} {
		err := checkServices(state, tc.services)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%v: %v, want %q", tc.services, err, tc.want)
		}
	}
}
