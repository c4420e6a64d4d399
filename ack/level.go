package ack

import "fmt"

// Level is the version of everything that is written: log entries, snapshots, heartbeats,
// answers, and the rules by which State changes. Each encoding begins with its level. A node
// reads every level that it supports, and writes the level of its applied state (MinLevel before
// the bootstrap). It answers a heartbeat at the level of the heartbeat. So programs with
// different levels can run side by side until a log entry raises the level.
type Level uint8

// The levels that this program supports. A new cluster starts at MinLevel. Level 1 was
// written by development versions only; this program refuses it.
const (
	MinLevel Level = 2
	MaxLevel Level = 2
)

// LevelError reports data of a level that this program does not support, or a cluster with such a
// level in force. A newer or a development version wrote it. It unwraps to ErrCorrupt.
type LevelError struct {
	Level Level
	// InForce means that a log entry raises the cluster to that level.
	InForce bool
}

// Outdated reports whether the level is below MinLevel: a development version wrote it.
func (e *LevelError) Outdated() bool { return e.Level < MinLevel }

// Error returns a message that contains both numbers.
func (e *LevelError) Error() string {
	return fmt.Sprintf("format version %d, and this program knows %s", e.Level, KnownLevels())
}

// Unwrap returns ErrCorrupt.
func (e *LevelError) Unwrap() error { return ErrCorrupt }

// KnownLevels returns the levels that this program supports, for messages.
func KnownLevels() string {
	if MinLevel == MaxLevel {
		return fmt.Sprintf("format version %d", MaxLevel)
	}
	return fmt.Sprintf("format versions %d to %d", MinLevel, MaxLevel)
}

// Known returns a *LevelError for a level that this program does not support.
func (l Level) Known() error {
	if l < MinLevel || l > MaxLevel {
		return &LevelError{Level: l}
	}
	return nil
}

// newWriter returns a writer that begins with a level; zero means MinLevel.
func newWriter(l Level) writer { return writer{b: []byte{byte(max(l, MinLevel))}} }

// level reads the level of an encoding.
func (r *reader) level() Level {
	l := Level(r.byte())
	if err := l.Known(); err != nil && r.err == nil {
		r.err, r.b = err, nil
	}
	return l
}

// LevelEntry is the log entry that raises the level.
type LevelEntry struct {
	// Term is the Raft term of the leader that decided on it (see ProposalEntry), based on reports
	// of that term.
	Term  uint64
	Level Level
}

// EncodeLevel returns the entry at a level.
func EncodeLevel(at Level, c LevelEntry) []byte {
	w := newWriter(at)
	w.byte(kindLevel)
	w.uint(c.Term)
	w.uint(uint64(c.Level))
	return w.b
}

// Level returns the level in force. It never decreases.
func (s *State) Level() Level { return s.level }

// applyLevel puts a higher level into force if the leader of the present term has submitted the
// entry. Otherwise the entry is ignored, because it relies on outdated reports to an earlier
// leader. A program that does not support the level must stop.
func (s *State) applyLevel(term uint64, c LevelEntry) (*State, Outcome, error) {
	if !s.Bootstrapped() || term != c.Term || c.Level <= s.level {
		return s.ignore()
	}
	if c.Level.Known() != nil {
		return s, 0, &LevelError{Level: c.Level, InForce: true}
	}
	s.level = c.Level
	return s, OutcomeLevelRaised, nil
}
