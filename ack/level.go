package ack

import "fmt"

// Level is a number for what may be written: log entries, snapshots, heartbeats,
// answers, and the rules by which State changes. Each of them begins with the
// level that it was written at. A node reads every level that it knows, writes the
// one of its applied state (before the birth: MinLevel), and answers a heartbeat in
// the heartbeat's. So programs that know different levels run side by side, until
// the log says that a later one is in force.
type Level uint8

// The levels that this program knows. A new cluster starts at MinLevel. Level 1 was
// written by development versions only; this program refuses it.
const (
	MinLevel Level = 2
	MaxLevel Level = 2
)

// LevelError reports what was written at a level that this program does not know,
// or a cluster in which one is in force: who wrote it knows more. It is ErrCorrupt.
type LevelError struct {
	Level Level
	// InForce means that the log says so: an entry puts the level into force.
	InForce bool
}

// Outdated reports that the level is below MinLevel: a development version wrote it.
func (e *LevelError) Outdated() bool { return e.Level < MinLevel }

// Error returns a message that contains both numbers.
func (e *LevelError) Error() string {
	return fmt.Sprintf("level %d, and this program knows %s", e.Level, KnownLevels())
}

// Unwrap returns ErrCorrupt.
func (e *LevelError) Unwrap() error { return ErrCorrupt }

// KnownLevels names the levels that this program knows, for people.
func KnownLevels() string {
	if MinLevel == MaxLevel {
		return fmt.Sprintf("level %d", MaxLevel)
	}
	return fmt.Sprintf("levels %d to %d", MinLevel, MaxLevel)
}

// Known returns a *LevelError for a level that this program does not know.
func (l Level) Known() error {
	if l < MinLevel || l > MaxLevel {
		return &LevelError{Level: l}
	}
	return nil
}

// begin begins what is written at a level; the zero one is MinLevel.
func newWriter(l Level) writer { return writer{b: []byte{byte(max(l, MinLevel))}} }

// level consumes the level that something was written at.
func (r *reader) level() Level {
	l := Level(r.byte())
	if err := l.Known(); err != nil && r.err == nil {
		r.err, r.b = err, nil
	}
	return l
}

// raising puts a level into force.
type levelEntry struct {
	// term is the Raft term of the leader that decided on it, as with a proposal: it
	// went by what it was told in that term.
	term  uint64
	level Level
}

func encodeLevel(at Level, c levelEntry) []byte {
	w := newWriter(at)
	w.byte(kindLevel)
	w.uint(c.term)
	w.uint(uint64(c.level))
	return w.b
}

// Level returns the level in force. It only grows.
func (s *State) Level() Level { return s.level }

// raised takes a level above the one in force, by the leader of the term that put
// it into the log: what an earlier one was told may be so no more. Who does not know
// it must not go on.
func (s *State) applyLevel(term uint64, c levelEntry) (*State, Outcome, error) {
	if !s.Bootstrapped() || term != c.term || c.level <= s.level {
		return s.ignore()
	}
	if c.level.Known() != nil {
		return s, 0, &LevelError{Level: c.level, InForce: true}
	}
	s.level = c.level
	return s, OutcomeLevelRaised, nil
}
