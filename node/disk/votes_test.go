package disk_test

import (
	"errors"
	"testing"
	"testing/synctest"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"shardway/node/disk"
)

// vote writes a vote as the library does.
func vote(s *disk.Stores, term uint64, cand string) error {
	return errors.Join(s.Stable.SetUint64([]byte("LastVoteTerm"), term), s.Stable.Set([]byte("LastVoteCand"), []byte(cand)))
}

// voted reads a vote as the library does.
func voted(t *testing.T, s *disk.Stores) (term uint64, cand string) {
	t.Helper()
	term, err := s.Stable.GetUint64([]byte("LastVoteTerm"))
	if err != nil && err.Error() != "not found" {
		t.Fatal(err)
	}
	b, err := s.Stable.Get([]byte("LastVoteCand"))
	if err != nil && err.Error() != "not found" {
		t.Fatal(err)
	}
	return term, string(b)
}

// A process that ends between writing the term and the candidate of a vote has not voted.
func TestVoteIsWrittenAtomically(t *testing.T) {
	path, m := t.TempDir(), disk.NewMemory()
	for name, open := range map[string]func() *disk.Dir{
		"files":  func() *disk.Dir { return mustOpen(t, path, "") },
		"memory": func() *disk.Dir { return memory(t, m) },
	} {
		t.Run(name, func(t *testing.T) {
			d := open()
			s := stores(t, d, disk.StoreOptions{})
			if term, cand := voted(t, s); term != 0 || cand != "" {
				t.Errorf("a new directory has voted for %q in term %d", cand, term)
			}
			if err := errors.Join(vote(s, 4, "a/x"), s.Stable.SetUint64([]byte("LastVoteTerm"), 5), d.Close()); err != nil {
				t.Fatal(err)
			}
			d = open()
			s = stores(t, d, disk.StoreOptions{})
			if term, cand := voted(t, s); term != 4 || cand != "a/x" {
				t.Errorf("voted for %q in term %d, want \"a/x\" in 4", cand, term)
			}
			if err := errors.Join(vote(s, 5, "b/y"), d.Close()); err != nil {
				t.Fatal(err)
			}
			d = open()
			if term, cand := voted(t, stores(t, d, disk.StoreOptions{})); term != 5 || cand != "b/y" {
				t.Errorf("voted for %q in term %d, want \"b/y\" in 5", cand, term)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A vote that the library itself wrote to the directory is not lost.
func TestVoteInLibraryFormatIsRead(t *testing.T) {
	path := t.TempDir()
	d := mustOpen(t, path, "")
	stores(t, d, disk.StoreOptions{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := raftboltdb.NewBoltStore(path + "/raft/log.db")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.SetUint64([]byte("LastVoteTerm"), 3), db.Set([]byte("LastVoteCand"), []byte("a/x")), db.Close()); err != nil {
		t.Fatal(err)
	}
	d = mustOpen(t, path, "")
	defer func() { _ = d.Close() }()
	if term, cand := voted(t, stores(t, d, disk.StoreOptions{})); term != 3 || cand != "a/x" {
		t.Errorf("voted for %q in term %d, want \"a/x\" in 3", cand, term)
	}
}

// If the library writes a candidate without a term, the node stops instead of guessing.
func TestCandidateWithoutTermFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := memory(t, disk.NewMemory())
		s := stores(t, d, disk.StoreOptions{})
		go func() { _ = s.Stable.Set([]byte("LastVoteCand"), []byte("a/x")) }()
		synctest.Wait()
		if s.Err() == nil {
			t.Error("a vote for nobody's term was written")
		}
		_ = d.Close()
	})
}
