package consensus

import (
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"

	"shardway/node/disk"
)

// storesWithLog returns stores with entries of the terms, from the index first on, and a snapshot.
func storesWithLog(t *testing.T, first uint64, terms []uint64, index, term uint64) *disk.Stores {
	t.Helper()
	d, err := disk.NewMemory().Open("a")
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.OpenStores(disk.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, term := range terms {
		if term == 0 {
			continue // A gap in the log.
		}
		if err = s.Logs.StoreLog(&raft.Log{Index: first + uint64(i), Term: term}); err != nil {
			t.Fatal(err)
		}
	}
	if index > 0 {
		k, err := s.Snapshots.Create(1, index, term, raft.Configuration{}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestRepairDropsWhatTheSnapshotMakesWrong(t *testing.T) {
	for _, c := range []struct {
		name        string
		first       uint64
		terms       []uint64
		index, term uint64
		left        [2]uint64 // first and last index; zero means an empty log
	}{
		{"no snapshot", 1, []uint64{1, 1}, 0, 0, [2]uint64{1, 2}},
		{"no log", 0, nil, 5, 2, [2]uint64{}},
		{"log goes on from it", 3, []uint64{1, 1, 2, 2}, 5, 2, [2]uint64{3, 6}},
		{"log ends with it", 3, []uint64{1, 1, 2}, 5, 2, [2]uint64{3, 5}},
		{"log ends before it", 1, []uint64{1, 1, 1}, 5, 2, [2]uint64{}},
		{"log contradicts it", 3, []uint64{1, 1, 1, 1}, 5, 2, [2]uint64{}},
		{"last entry contradicts it", 3, []uint64{1, 1, 1}, 5, 2, [2]uint64{}},
		{"compacted up to it", 6, []uint64{2, 3}, 5, 2, [2]uint64{6, 7}},
		{"compacted up to it, contradicting", 6, []uint64{1, 1}, 5, 2, [2]uint64{}},
		{"old rest before it", 2, []uint64{1, 0, 0, 0, 2, 2}, 5, 2, [2]uint64{6, 7}},
	} {
		stores := storesWithLog(t, c.first, c.terms, c.index, c.term)
		if err := repairLog(stores, zerolog.Nop()); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		first, err := stores.Logs.FirstIndex()
		if err != nil {
			t.Fatal(err)
		}
		last, err := stores.Logs.LastIndex()
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]uint64{first, last}; got != c.left {
			t.Errorf("%s: left %v, want %v", c.name, got, c.left)
		}
	}
}

func TestRepairRefusesALogWithAHole(t *testing.T) {
	stores := storesWithLog(t, 2, []uint64{1, 0, 0, 0, 0, 0, 3}, 5, 2)
	if err := repairLog(stores, zerolog.Nop()); err == nil || !strings.Contains(err.Error(), "lacks entry 6") {
		t.Errorf("repair: %v, want the entry that is missing", err)
	}
}
