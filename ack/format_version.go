package ack

import "fmt"

// FormatVersion is the version of everything that is written: log entries, snapshots, heartbeats,
// answers, and the rules by which State changes. Each encoding begins with its format version. A
// node reads every format version that it supports, and writes the format version of its applied
// state (MinFormatVersion before the bootstrap). It answers a heartbeat at the format version of
// the heartbeat, so programs with different format versions can run side by side until a log entry
// raises the format version.
type FormatVersion uint8

// The format versions that this program supports. A new cluster starts at MaxFormatVersion. Version
// 1 was written by development versions only; this program refuses it.
const (
	MinFormatVersion FormatVersion = 2
	MaxFormatVersion FormatVersion = 4
)

// InstancesFormatVersion is the first format version that can contain app instances after the first
// one of a node: in maps, heartbeats, policies and reports of apps. Everything else is encoded as in
// the previous version.
const InstancesFormatVersion FormatVersion = 3

// HasInstances reports whether data of this format version can contain app instances.
func (v FormatVersion) HasInstances() bool { return v >= InstancesFormatVersion }

// ReasonsFormatVersion is the first format version that contains the reasons of operators, and pins to
// several nodes. Changes of an earlier format version are encoded without them.
const ReasonsFormatVersion FormatVersion = 3

// HasReasons reports whether data of this format version contains the reasons that operators give for their actions.
func (v FormatVersion) HasReasons() bool { return v >= ReasonsFormatVersion }

// HasPinFallbacks reports whether data of this format version contains the fallbacks of pins. They were
// added with the reasons.
func (v FormatVersion) HasPinFallbacks() bool { return v >= ReasonsFormatVersion }

// HasFailedMarks reports whether data of this format version can mark nodes as failed. The marks were
// added with the reasons.
func (v FormatVersion) HasFailedMarks() bool { return v >= ReasonsFormatVersion }

// PeerReportsFormatVersion is the first format version in which heartbeats can contain unreachable nodes,
// and log entries can exclude such nodes.
const PeerReportsFormatVersion = InstancesFormatVersion

// HasPeerReports reports whether data of this format version can contain reports about unreachable nodes.
func (v FormatVersion) HasPeerReports() bool { return v >= PeerReportsFormatVersion }

// RolesFormatVersion is the first format version in which heartbeats can contain the roles of a node, and a
// policy can restrict shards to nodes with a role.
const RolesFormatVersion FormatVersion = 3

// HasRoles reports whether data of this format version can contain roles.
func (v FormatVersion) HasRoles() bool { return v >= RolesFormatVersion }

// RegistryFormatVersion is the first format version in which the log can contain entries of the registry, and
// snapshots and backups contain the registry.
const RegistryFormatVersion FormatVersion = 4

// HasRegistry reports whether data of this format version can contain the registry.
func (v FormatVersion) HasRegistry() bool { return v >= RegistryFormatVersion }

// FormatVersionError reports data of a format version that this program does not support, or a
// cluster with such a format version in force. Another version of the program, newer or unreleased, has written the
// data. It unwraps to ErrCorrupt.
type FormatVersionError struct {
	Version FormatVersion
	// InForce is set if the whole cluster uses that format version: a log entry has switched all nodes to it.
	InForce bool
}

// Outdated reports whether the format version is below MinFormatVersion: a development version
// wrote it.
func (e *FormatVersionError) Outdated() bool { return e.Version < MinFormatVersion }

// Error returns a message with the format version and those that this program supports.
func (e *FormatVersionError) Error() string {
	return fmt.Sprintf("format version %d, and this program supports %s", e.Version, SupportedFormatVersions())
}

// Unwrap returns ErrCorrupt.
func (e *FormatVersionError) Unwrap() error { return ErrCorrupt }

// SupportedFormatVersions returns the format versions that this program supports, for messages.
func SupportedFormatVersions() string {
	if MinFormatVersion == MaxFormatVersion {
		return fmt.Sprintf("format version %d", MaxFormatVersion)
	}
	return fmt.Sprintf("format versions %d to %d", MinFormatVersion, MaxFormatVersion)
}

// CheckSupported returns a *FormatVersionError for a format version that this program does not
// support.
func (v FormatVersion) CheckSupported() error {
	if v < MinFormatVersion || v > MaxFormatVersion {
		return &FormatVersionError{Version: v}
	}
	return nil
}

// newWriter returns a writer that begins with a format version; zero means MinFormatVersion.
func newWriter(version FormatVersion) writer {
	return writer{buf: []byte{byte(max(version, MinFormatVersion))}}
}

// version returns the format version with which the encoding begins.
func (w *writer) version() FormatVersion { return FormatVersion(w.buf[0]) }

// readFormatVersion reads the format version of an encoding.
func (r *reader) readFormatVersion() FormatVersion {
	version := FormatVersion(r.byte())
	if err := version.CheckSupported(); err != nil && r.err == nil {
		r.err, r.buf = err, nil
	}
	r.version = version
	return version
}

// FormatVersionEntry is the log entry that raises the format version.
type FormatVersionEntry struct {
	// Term is the Raft term of the leader that decided on it (see ProposalEntry), based on reports
	// of that term.
	Term    uint64
	Version FormatVersion
}

// EncodeFormatVersion encodes the entry in the given format version.
func EncodeFormatVersion(version FormatVersion, entry FormatVersionEntry) []byte {
	w := newWriter(version)
	w.byte(kindFormatVersion)
	w.uint(entry.Term)
	w.uint(uint64(entry.Version))
	return w.buf
}

// FormatVersion returns the format version in force. It never decreases.
func (s *State) FormatVersion() FormatVersion { return s.formatVersion }

// applyFormatVersion puts a higher format version into force if the leader of the current term has
// submitted the entry. Otherwise the entry is ignored, because it relies on outdated reports to an
// earlier leader. A program that does not support the format version must stop.
func (s *State) applyFormatVersion(term uint64, entry FormatVersionEntry) (*State, Outcome, error) {
	if !s.Bootstrapped() || term != entry.Term || entry.Version <= s.formatVersion {
		return s.ignore()
	}
	if entry.Version.CheckSupported() != nil {
		return s, 0, &FormatVersionError{Version: entry.Version, InForce: true}
	}
	s.formatVersion = entry.Version
	return s, OutcomeFormatVersionRaised, nil
}
