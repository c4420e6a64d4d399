package gossip

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/serf/serf"
)

// Unchanged content is not written again after each exchange of state. Content that could not be written is.
func TestTheRecordIsWrittenWhenItHasToBe(t *testing.T) {
	r, _ := openSnapshot(filepath.Join(t.TempDir(), "gossip"))
	r.addAlive("a", somewhere)
	writes, full := 0, errors.New("no space left on device")
	r.writeFile = func(string, []byte) error {
		if writes++; writes == 1 {
			return full
		}
		return nil
	}
	for i, want := range []struct {
		wrote bool
		err   error
		n     int
	}{{true, full, 1}, {true, nil, 2}, {false, nil, 2}} {
		if wrote, err := r.save(41); wrote != want.wrote || !errors.Is(err, want.err) || writes != want.n {
			t.Errorf("time %d: wrote %v, %v, %d writes, want %v, %v, %d", i+1, wrote, err, writes, want.wrote, want.err, want.n)
		}
	}
}

// A file that cannot be opened may contain more than what was learned since, so it is not replaced.
func TestARecordThatCannotBeOpenedIsNotReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := openSnapshot(filepath.Join(path, "gossip"))
	if err == nil {
		t.Fatal("it was opened")
	}
	r.writeFile = func(string, []byte) error { t.Error("it is written"); return nil }
	r.addAlive("a", somewhere)
	if wrote, err := r.save(41); wrote || err != nil {
		t.Errorf("wrote %v, %v", wrote, err)
	}
}

// A member that left is dialed no more than one that failed, and a clock value never decreases.
func TestLeftMemberIsGoneAndClockNeverDecreases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gossip")
	if err := os.WriteFile(path, []byte("alive: a 10.0.0.1:7946\nclock: 9\nclock: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := openSnapshot(path)
	if err != nil || r.lamportClock != 9 {
		t.Errorf("clock %d, %v, want 9", r.lamportClock, err)
	}
	r.onEvent(serf.MemberEvent{Type: serf.EventMemberLeave, Members: []serf.Member{seenAs("a", "10.0.0.1:7946")}})
	if alive := r.aliveMembers(); len(alive) != 0 {
		t.Errorf("alive: %v, want nobody", alive)
	}
}
