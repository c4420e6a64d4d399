package ack

import "fmt"

// FormatVersion is the version of everything that is written: log entries, snapshots, heartbeats,
// answers, and the rules by which State changes. Each encoding begins with its level. A node reads
// every level that it supports, and writes the level of its applied state (MinFormatVersion before
// the bootstrap). It answers a heartbeat at the level of the heartbeat. So programs with different
// levels can run side by side until a log entry raises the level.
type FormatVersion uint8

// The levels that this program supports. A new cluster starts at MinFormatVersion. Level 1 was
// written by development versions only; this program refuses it.
const (
	MinFormatVersion FormatVersion = 2
	MaxFormatVersion FormatVersion = 2
)

// FormatVersionError reports data of a level that this program does not support, or a cluster with
// such a level in force. A newer or a development version wrote it. It unwraps to ErrCorrupt.
type FormatVersionError struct {
	Version FormatVersion
	// InForce means that a log entry raises the cluster to that level.
	InForce bool
}

// Outdated reports whether the level is below MinFormatVersion: a development version wrote it.
func (e *FormatVersionError) Outdated() bool { return e.Version < MinFormatVersion }

// Error returns a message that contains both numbers.
func (e *FormatVersionError) Error() string {
	return fmt.Sprintf("format version %d, and this program knows %s", e.Version, SupportedFormatVersions())
}

// Unwrap returns ErrCorrupt.
func (e *FormatVersionError) Unwrap() error { return ErrCorrupt }

// SupportedFormatVersions returns the levels that this program supports, for messages.
func SupportedFormatVersions() string {
	if MinFormatVersion == MaxFormatVersion {
		return fmt.Sprintf("format version %d", MaxFormatVersion)
	}
	return fmt.Sprintf("format versions %d to %d", MinFormatVersion, MaxFormatVersion)
}

// CheckSupported returns a *FormatVersionError for a level that this program does not support.
func (l FormatVersion) CheckSupported() error {
	if l < MinFormatVersion || l > MaxFormatVersion {
		return &FormatVersionError{Version: l}
	}
	return nil
}

// newWriter returns a writer that begins with a level; zero means MinFormatVersion.
func newWriter(l FormatVersion) writer { return writer{buf: []byte{byte(max(l, MinFormatVersion))}} }

// formatVersion reads the level of an encoding.
func (r *reader) formatVersion() FormatVersion {
	l := FormatVersion(r.byte())
	if err := l.CheckSupported(); err != nil && r.err == nil {
		r.err, r.buf = err, nil
	}
	return l
}

// FormatVersionEntry is the log entry that raises the level.
type FormatVersionEntry struct {
	// Term is the Raft term of the leader that decided on it (see ProposalEntry), based on reports
	// of that term.
	Term    uint64
	Version FormatVersion
}

// EncodeFormatVersion returns the entry at a level.
func EncodeFormatVersion(at FormatVersion, c FormatVersionEntry) []byte {
	w := newWriter(at)
	w.byte(kindFormatVersion)
	w.uint(c.Term)
	w.uint(uint64(c.Version))
	return w.buf
}

// FormatVersion returns the level in force. It never decreases.
func (s *State) FormatVersion() FormatVersion { return s.formatVersion }

// applyFormatVersion puts a higher level into force if the leader of the present term has submitted
// the entry. Otherwise the entry is ignored, because it relies on outdated reports to an earlier
// leader. A program that does not support the level must stop.
func (s *State) applyFormatVersion(term uint64, c FormatVersionEntry) (*State, Outcome, error) {
	if !s.Bootstrapped() || term != c.Term || c.Version <= s.formatVersion {
		return s.ignore()
	}
	if c.Version.CheckSupported() != nil {
		return s, 0, &FormatVersionError{Version: c.Version, InForce: true}
	}
	s.formatVersion = c.Version
	return s, OutcomeFormatVersionRaised, nil
}
