package ack

import (
	"errors"
	"strings"
	"testing"
)

// below returns the state of a cluster one level below MinLevel, so that MinLevel can be raised.
func below(t *testing.T) *State {
	t.Helper()
	s, _, err := NewState().Apply(1, 1, EncodeBootstrap("c", 8, DefaultTiming()))
	if err != nil {
		t.Fatal(err)
	}
	n := *s
	n.level = MinLevel - 1
	return &n
}

// Reports of an earlier term do not count: the node may since have returned to an older program.
func TestLevelIsRaisedOnceAndByTheTermThatDecided(t *testing.T) {
	s := below(t)
	for _, c := range []struct {
		name string
		term uint64
		to   Level
		want Outcome
	}{
		{"of an earlier term", 1, MinLevel, OutcomeIgnored},
		{"of its term", 2, MinLevel, OutcomeLevelRaised},
		{"to the same again", 2, MinLevel, OutcomeIgnored},
	} {
		n := *s
		next, outcome, err := n.applyLevel(2, LevelEntry{Term: c.term, Level: c.to})
		if err != nil || outcome != c.want {
			t.Errorf("raised %s: outcome %d, %v, want %d", c.name, outcome, err, c.want)
		}
		s = next
	}
	if s.Level() != MinLevel {
		t.Errorf("level %d in force, want %d", s.Level(), MinLevel)
	}
}

// A program that does not support the level in force would apply later entries by other rules.
func TestLevelAboveTheProgramStopsIt(t *testing.T) {
	s, _, err := NewState().Apply(1, 1, EncodeBootstrap("c", 8, DefaultTiming()))
	if err != nil {
		t.Fatal(err)
	}
	next, outcome, err := s.Apply(2, 3, EncodeLevel(MinLevel, LevelEntry{Term: 3, Level: MaxLevel + 1}))
	var above *LevelError
	if !errors.As(err, &above) || above.Level != MaxLevel+1 || outcome != 0 || next != s || !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), KnownLevels()) {
		t.Errorf("an entry that raises the level to %d: %v, outcome %d", MaxLevel+1, err, outcome)
	}
	// Ignored old reports prevent nothing.
	if next, outcome, err = s.Apply(2, 3, EncodeLevel(MinLevel, LevelEntry{Term: 2, Level: MaxLevel + 1})); err != nil || outcome != OutcomeIgnored || next.Level() != MinLevel {
		t.Errorf("one of an earlier term: %v, outcome %d", err, outcome)
	}
}

func TestEntryOfALevelNotYetInForceIsCorrupt(t *testing.T) {
	s := below(t)
	if next, _, err := s.Apply(2, 1, EncodeTiming(MinLevel, TimingEntry{Term: 1, Replaces: s.timingIndex, Timing: DefaultTiming()})); !errors.Is(err, ErrCorrupt) || next != s {
		t.Errorf("applied: %v", err)
	}
}

// A snapshot, a backup and a recovered cluster keep the level.
func TestLevelIsKept(t *testing.T) {
	s, _, err := NewState().Apply(1, 1, EncodeBootstrap("c", 8, DefaultTiming()))
	if err != nil {
		t.Fatal(err)
	}
	s.level = MaxLevel + 1 // as in a newer program
	b, err := s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var above *LevelError
	if _, err = DecodeState(b); !errors.As(err, &above) || above.Level != MaxLevel+1 {
		t.Errorf("a snapshot of level %d was read: %v", MaxLevel+1, err)
	}
	file, err := s.Backup()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = OpenBackup(file); !errors.As(err, &above) || !errors.Is(err, ErrNoBackup) {
		t.Errorf("a backup of level %d was read: %v", MaxLevel+1, err)
	}
	r, err := s.Recovered("d", 1+MinJump)
	if err != nil || r.Level() != s.Level() {
		t.Errorf("recovered at level %d, %v, want %d", r.Level(), err, s.Level())
	}
}
