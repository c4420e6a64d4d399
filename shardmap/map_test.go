package shardmap_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"shardway/shardmap"
)

func TestNewMapIsAllOrphans(t *testing.T) {
	m := shardmap.New(7)
	if m.Len() != 7 || m.OrphanCount() != 7 || m.Epoch() != 0 || len(m.Members()) != 0 {
		t.Errorf("New(7): len %d, orphans %d, epoch %d, members %v", m.Len(), m.OrphanCount(), m.Epoch(), m.Members())
	}
	for s := range shardmap.Shard(7) {
		if m.Owner(s) != "" || m.OwnerIndex(s) != -1 || m.OwnedSince(s) != 0 {
			t.Errorf("shard %d: owner %q, index %d, since %d", s, m.Owner(s), m.OwnerIndex(s), m.OwnedSince(s))
		}
	}
	for range m.Shards("a") {
		t.Error("a stranger owns a shard")
	}
}

func TestNewPanicsIfShardCountIsOutOfRange(t *testing.T) {
	for _, n := range []int{-1, 0, shardmap.MaxShards + 1} {
		mustPanic(t, func() { shardmap.New(n) })
	}
	if got := shardmap.New(shardmap.MaxShards).Len(); got != shardmap.MaxShards {
		t.Errorf("Len() = %d, want %d", got, shardmap.MaxShards)
	}
}

func TestShardsStopsWhenYieldReturnsFalse(t *testing.T) {
	m := shardmap.Assign(shardmap.New(10), equalMembers("a"), shardmap.Policy{})
	var got []shardmap.Shard
	for s := range m.Shards("a") {
		if got = append(got, s); len(got) == 3 {
			break
		}
	}
	if want := []shardmap.Shard{0, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOwnershipEpochChangesOnlyWithTheOwner(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		m := shardmap.New(1 + r.IntN(200))
		last := make([]shardmap.Epoch, m.Len()) // ever seen, across orphanhood
		for range 20 {
			want := shardmap.Assign(m, randomMembers(r, 6), shardmap.Policy{})
			next := want.WithEpoch(m, m.Epoch()+1+shardmap.Epoch(r.IntN(5)))
			for s := range shardmap.Shard(m.Len()) {
				was, is := m.OwnedSince(s), next.OwnedSince(s)
				switch {
				case next.Owner(s) == "":
					if is != 0 {
						t.Fatalf("orphan %d since %d, want 0", s, is)
					}
					continue
				case next.Owner(s) == m.Owner(s):
					if is != was {
						t.Fatalf("shard %d kept its owner, since went from %d to %d", s, was, is)
					}
				case is != next.Epoch() || is <= last[s]:
					t.Fatalf("shard %d changed hands at epoch %d, since %d, before %d", s, next.Epoch(), is, last[s])
				}
				last[s] = is
			}
			m = next
		}
	}
}

// A leader may have computed its map from a base that the log does not contain. Only the base that
// WithEpoch receives matters.
func TestWithEpochIgnoresOwnershipEpochsOfTheMap(t *testing.T) {
	a := assignNext(shardmap.New(4), equalMembers("a"))                                    // epoch 1
	other := assignNext(assignNext(shardmap.New(4), equalMembers("b")), equalMembers("a")) // epoch 2
	got := other.WithEpoch(a, 9)
	for s := range shardmap.Shard(4) {
		if e := got.OwnedSince(s); e != 1 {
			t.Errorf("OwnedSince(%d) = %d, want 1", s, e)
		}
	}
	if got.Epoch() != 9 || other.Epoch() != 2 {
		t.Errorf("epochs %d and %d, want 9 and 2", got.Epoch(), other.Epoch())
	}
}

func TestWithEpochPanicsIfEpochDecreases(t *testing.T) {
	base := shardmap.Assign(shardmap.New(4), equalMembers("a"), shardmap.Policy{}).WithEpoch(shardmap.New(4), 5)
	mustPanic(t, func() { base.WithEpoch(base, 4) })
}

func TestWithEpochAndDiffAcceptMapsOfDifferentLengths(t *testing.T) {
	short, long := assignNext(shardmap.New(2), equalMembers("a")), assignNext(shardmap.New(4), equalMembers("a"))
	got := long.WithEpoch(short, 7)
	for s, want := range []shardmap.Epoch{1, 1, 7, 7} {
		if e := got.OwnedSince(shardmap.Shard(s)); e != want {
			t.Errorf("OwnedSince(%d) = %d, want %d", s, e, want)
		}
	}
	if got := short.WithEpoch(long, 7); got.Len() != 2 || got.OwnedSince(1) != 1 {
		t.Errorf("len %d, since %d, want 2, 1", got.Len(), got.OwnedSince(1))
	}
	if got, want := shardmap.Diff(short, long), []shardmap.Move{{Shard: 2, To: "a"}, {Shard: 3, To: "a"}}; !slices.Equal(got, want) {
		t.Errorf("Diff = %v, want %v", got, want)
	}
	if got, want := shardmap.Diff(long, short), []shardmap.Move{{Shard: 2, From: "a"}, {Shard: 3, From: "a"}}; !slices.Equal(got, want) {
		t.Errorf("Diff = %v, want %v", got, want)
	}
}

func TestDiffReturnsShardsWithDifferentOwners(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		m := shardmap.Assign(shardmap.New(1+r.IntN(50)), randomMembers(r, 5), shardmap.Policy{})
		o := shardmap.Assign(m, randomMembers(r, 5), shardmap.Policy{})
		var want []shardmap.Move
		for s := range shardmap.Shard(m.Len()) {
			if m.Owner(s) != o.Owner(s) {
				want = append(want, shardmap.Move{Shard: s, From: m.Owner(s), To: o.Owner(s)})
			}
		}
		if got := shardmap.Diff(m, o); !slices.Equal(got, want) {
			t.Fatalf("Diff = %v, want %v", got, want)
		}
	}
}

func TestSameAsComparesMembersWeightsAndOwners(t *testing.T) {
	m := assignNext(shardmap.New(8), equalMembers("a", "b"))
	heavier := []shardmap.Member{{ID: "a", Weight: 2}, {ID: "b", Weight: 2}}
	tests := []struct {
		name string
		o    *shardmap.Map
		want bool
	}{
		{"another epoch", m.WithEpoch(m, 99), true},
		{"assigned again", shardmap.Assign(m, equalMembers("b", "a"), shardmap.Policy{}), true},
		{"other weights, same owners", shardmap.Assign(m, heavier, shardmap.Policy{}), false},
		{"a member more", shardmap.Assign(m, equalMembers("a", "b", "c"), shardmap.Policy{}), false},
		{"none", shardmap.New(8), false},
		{"other length", assignNext(shardmap.New(9), equalMembers("a", "b")), false},
	}
	for _, tt := range tests {
		if got := m.HasSameOwners(tt.o); got != tt.want {
			t.Errorf("%s: SameAs = %v, want %v", tt.name, got, tt.want)
		}
		if got := tt.o.HasSameOwners(m); got != tt.want {
			t.Errorf("%s, reversed: SameAs = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	m := shardmap.Assign(shardmap.New(1024), nodes(10), shardmap.Policy{})
	n := testing.AllocsPerRun(100, func() {
		_ = m.Owner(shardmap.ShardOf("alice", m.Len()))
	})
	if n != 0 {
		t.Errorf("lookup allocates %v times, want 0", n)
	}
}

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	f()
}
