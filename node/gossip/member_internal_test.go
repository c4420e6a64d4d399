package gossip

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/hashicorp/serf/serf"
)

// The cached tags of members match their current tags, and contain present members only.
func TestReadingsFollowTheTags(t *testing.T) {
	member := func(name, weight string) serf.Member {
		return serf.Member{Name: name, Addr: []byte{127, 0, 0, 1}, Port: 1, Status: serf.StatusAlive, Tags: map[string]string{
			tagProtocol: strconv.Itoa(protocolVersion), tagNode: name, tagWeight: weight, "ep.http": "127.0.0.1:" + weight,
		}}
	}
	var r tagCache
	for _, all := range [][]serf.Member{
		{member("b", "1"), member("a", "2")},
		{member("a", "2"), member("b", "3")},
		{member("a", "2"), member("b", "x")},
		{member("b", "x")},
		{member("b", "5"), member("c", "4"), member("a", "7")},
		{},
	} {
		want := fmt.Sprintf("%+v", (&tagCache{}).members(all))
		for range 2 {
			if got := fmt.Sprintf("%+v", r.members(all)); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		if len(r.byName) != len(all) {
			t.Errorf("%d members are remembered, want %d", len(r.byName), len(all))
		}
	}
}
