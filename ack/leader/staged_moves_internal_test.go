package leader

import "testing"

// The number of maps for one change of an owner is bounded, also of maps that leave it no busy
// shard: requests may begin while such a map is proposed.
func TestNumberOfMapsOfAnOwnerIsBounded(t *testing.T) {
	for _, c := range []struct {
		maps  int
		early bool // the next map that leaves busy shards is not due yet
		want  bool
	}{
		{maps: 0, early: true, want: true},
		{maps: 1, want: true},
		{maps: maxStages, want: true},
		{maps: 2*maxStages - 1, early: true, want: true},
		{maps: 2 * maxStages, want: false},
	} {
		staged := newStagedMoves()
		o := &ownerProgress{proposals: c.maps}
		if c.early {
			o.nextProposalAt = 1
		}
		staged.progress["b"] = o
		if got := staged.mayUseAnswer(0, "b", false); got != c.want {
			t.Errorf("after %d maps: another map %v, want %v", c.maps, got, c.want)
		}
	}
}
