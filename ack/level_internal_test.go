package ack

import (
	"errors"
	"strings"
	"testing"
)

// below returns the state of a cluster one level below MinFormatVersion, so that MinFormatVersion
// can be raised.
func below(t *testing.T) *State {
	t.Helper()
	s, _, err := NewState().Apply(1, 1, EncodeBootstrap("c", 8, DefaultTiming()))
	if err != nil {
		t.Fatal(err)
	}
	n := *s
	n.formatVersion = MinFormatVersion - 1
	return &n
}

// Reports of an earlier term do not count: the node may since have returned to an older program.
func TestLevelIsRaisedOnceAndByTheTermThatDecided(t *testing.T) {
	s := below(t)
	for _, c := range []struct {
		name string
		term uint64
		to   FormatVersion
		want Outcome
	}{
		{"of an earlier term", 1, MinFormatVersion, OutcomeIgnored},
		{"of its term", 2, MinFormatVersion, OutcomeFormatVersionRaised},
		{"to the same again", 2, MinFormatVersion, OutcomeIgnored},
	} {
		n := *s
		next, outcome, err := n.applyFormatVersion(2, FormatVersionEntry{Term: c.term, Version: c.to})
		if err != nil || outcome != c.want {
			t.Errorf("raised %s: outcome %d, %v, want %d", c.name, outcome, err, c.want)
		}
		s = next
	}
	if s.FormatVersion() != MinFormatVersion {
		t.Errorf("level %d in force, want %d", s.FormatVersion(), MinFormatVersion)
	}
}

// A program that does not support the level in force would apply later entries by other rules.
func TestLevelAboveTheProgramStopsIt(t *testing.T) {
	s, _, err := NewState().Apply(1, 1, EncodeBootstrap("c", 8, DefaultTiming()))
	if err != nil {
		t.Fatal(err)
	}
	next, outcome, err := s.Apply(2, 3, EncodeFormatVersion(MinFormatVersion, FormatVersionEntry{Term: 3, Version: MaxFormatVersion + 1}))
	var above *FormatVersionError
	if !errors.As(err, &above) || above.Version != MaxFormatVersion+1 || outcome != 0 || next != s || !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), SupportedFormatVersions()) {
		t.Errorf("an entry that raises the level to %d: %v, outcome %d", MaxFormatVersion+1, err, outcome)
	}
	// Ignored old reports prevent nothing.
	if next, outcome, err = s.Apply(2, 3, EncodeFormatVersion(MinFormatVersion, FormatVersionEntry{Term: 2, Version: MaxFormatVersion + 1})); err != nil || outcome != OutcomeIgnored || next.FormatVersion() != MaxFormatVersion {
		t.Errorf("one of an earlier term: %v, outcome %d", err, outcome)
	}
}

func TestEntryOfALevelNotYetInForceIsCorrupt(t *testing.T) {
	s := below(t)
	if next, _, err := s.Apply(2, 1, EncodeTiming(MinFormatVersion, TimingEntry{Term: 1, Replaces: s.timingIndex, Timing: DefaultTiming()})); !errors.Is(err, ErrCorrupt) || next != s {
		t.Errorf("applied: %v", err)
	}
}

// A snapshot, a backup and a recovered cluster keep the level.
func TestLevelIsKept(t *testing.T) {
	s, _, err := NewState().Apply(1, 1, EncodeBootstrap("c", 8, DefaultTiming()))
	if err != nil {
		t.Fatal(err)
	}
	s.formatVersion = MaxFormatVersion + 1 // as in a newer program
	b, err := s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var above *FormatVersionError
	if _, err = DecodeState(b); !errors.As(err, &above) || above.Version != MaxFormatVersion+1 {
		t.Errorf("a snapshot of level %d was read: %v", MaxFormatVersion+1, err)
	}
	file, err := s.Backup()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = OpenBackup(file); !errors.As(err, &above) || !errors.Is(err, ErrNoBackup) {
		t.Errorf("a backup of level %d was read: %v", MaxFormatVersion+1, err)
	}
	r, err := s.Recovered("d", 1+MinIndexGap)
	if err != nil || r.FormatVersion() != s.FormatVersion() {
		t.Errorf("recovered at level %d, %v, want %d", r.FormatVersion(), err, s.FormatVersion())
	}
}
