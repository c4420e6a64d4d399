package ack

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"shardway/shardmap"
)

// Bounds of the notes. A note is data of the app, such as a version of its state, that the app of one
// owner leaves to the app of the next owner.
const (
	// MaxNote is the maximum size of the note of one shard, in bytes.
	MaxNote = 1 << 10
	// MaxNotes and MaxNoteBytes bound the notes of one node for one proposal, the notes of one
	// commit, and the notes in a State.
	MaxNotes     = 1024
	MaxNoteBytes = 128 << 10
)

// Released is a shard that its app has released: the state that the note refers to is final.
type Released struct {
	Shard shardmap.Shard
	// From is the node whose app released the shard. It is set only if the current owner gives the
	// shard up before its own app has acquired it, so that the release of an earlier owner still
	// applies. Empty means the current owner.
	From shardmap.NodeID
	// Note is the note of that release, up to MaxNote bytes; nil means none.
	Note []byte
}

// Releases lists the shards that the app of a node has released: those that the node gives up for
// one proposal, or all its shards if it restarts in place. Releases can be large, so the node sends
// them separately from heartbeats. The heartbeat that acknowledges the proposal contains their
// digest.
type Releases struct {
	// FormatVersion is the format version of the encoding, as in Heartbeat.
	FormatVersion FormatVersion
	Node          shardmap.NodeID
	// Server, Boot and Proposal identify the disk, the process and the proposal for which the
	// releases are valid.
	Server   string
	Boot     uint64
	Proposal shardmap.Epoch
	// Shards are the released shards, ordered by number.
	Shards []Released
	// OverLimit are the shards whose notes exceed MaxNotes or MaxNoteBytes. They move unreleased.
	// OverLimit is not encoded.
	OverLimit []shardmap.Shard
}

// Digest returns the digest for the heartbeat. It is never zero.
func (rl *Releases) Digest() [sha256.Size]byte {
	encoded, _ := rl.MarshalBinary()
	return sha256.Sum256(encoded)
}

// MarshalBinary encodes the releases without OverLimit. The error is always nil.
func (rl *Releases) MarshalBinary() ([]byte, error) {
	w := newWriter(rl.FormatVersion)
	w.text(string(rl.Node))
	w.text(rl.Server)
	w.uint(rl.Boot)
	w.uint(uint64(rl.Proposal))
	w.writeReleases(rl.Shards)
	return w.buf, nil
}

// UnmarshalBinary decodes the output of MarshalBinary. Any other input is ErrCorrupt.
func (rl *Releases) UnmarshalBinary(data []byte) error {
	in := reader{buf: data}
	*rl = Releases{
		FormatVersion: in.readFormatVersion(), Node: shardmap.NodeID(in.text(1, maxText)), Server: in.text(1, 2*maxText),
		Boot: in.uint(1, maxUint), Proposal: shardmap.Epoch(in.uint(1, maxUint)), Shards: in.readReleases(),
	}
	if !strings.HasPrefix(rl.Server, string(rl.Node)+"/") {
		in.fail("server of another node")
	}
	return in.finish()
}

// writeReleases writes the releases ordered by shard. Shards are delta-encoded: each is stored as its distance from the
// lowest number that may follow its predecessor. The releasing node is stored as its 1-based position in a sorted list
// of node IDs, or as 0 for the owner itself.
func (w *writer) writeReleases(releases []Released) {
	var names []string
	for _, release := range releases {
		if release.From != "" {
			names = append(names, string(release.From))
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	w.writeNames(names)
	w.uint(uint64(len(releases)))
	next := shardmap.Shard(0)
	for _, release := range releases {
		position := 0
		if i, found := slices.BinarySearch(names, string(release.From)); found {
			position = i + 1
		}
		w.uint(uint64(release.Shard - next))
		w.uint(uint64(position))
		w.bytes(release.Note)
		next = release.Shard + 1
	}
}

// readReleases decodes the output of writer.writeReleases.
func (r *reader) readReleases() []Released {
	names := append([]string{""}, r.readNames()...)
	usedPositions := map[uint64]bool{0: true} // in names; position 0 (the owner itself) need not occur
	budget := NoteBudget{}
	var releases []Released
	next := uint64(0) // the lowest shard that may follow
	for range r.uint(0, MaxShards) {
		shard, position, note := next+r.uint(0, MaxShards), r.uint(0, uint64(len(names)-1)), r.readNote()
		if shard >= MaxShards {
			r.fail("no such shard")
		}
		if !budget.Add(note) {
			r.fail("too many notes")
		}
		if r.err != nil {
			return nil
		}
		releases = append(releases, Released{Shard: shardmap.Shard(shard), From: shardmap.NodeID(names[position]), Note: note})
		usedPositions[position] = true
		next = shard + 1
	}
	if len(usedPositions) != len(names) {
		r.fail("unused name")
	}
	return releases
}

// readNote reads a note and copies it; nil if it is empty.
func (r *reader) readNote() []byte {
	note := r.read(int(r.uint(0, MaxNote)))
	if len(note) == 0 {
		return nil
	}
	return slices.Clone(note)
}

// NoteBudget enforces the limits MaxNotes and MaxNoteBytes of a set of notes. The zero value has no
// notes yet.
type NoteBudget struct {
	count int // notes so far
	bytes int // total size of these notes
}

// Add counts a note. It returns false, without counting, if the note does not fit. An empty note
// costs nothing.
func (b *NoteBudget) Add(note []byte) bool {
	if len(note) == 0 {
		return true
	}
	tooMany := b.count == MaxNotes
	tooLarge := len(note) > MaxNote || b.bytes+len(note) > MaxNoteBytes
	if tooMany || tooLarge {
		return false
	}
	b.count++
	b.bytes += len(note)
	return true
}

// nodeOfServer returns the node of a Raft server id, which has the form node/disk. The result is
// empty for any other text.
func nodeOfServer(server string) shardmap.NodeID {
	slash := strings.LastIndexByte(server, '/')
	return shardmap.NodeID(server[:max(slash, 0)])
}

// writeNames writes a sorted list of names.
func (w *writer) writeNames(names []string) {
	w.uint(uint64(len(names)))
	for _, name := range names {
		w.text(name)
	}
}

// readNames decodes the output of writer.writeNames.
func (r *reader) readNames() []string {
	var names []string
	for range r.uint(0, shardmap.MaxMembers) {
		name := r.text(1, 2*maxText)
		if len(names) > 0 && name <= names[len(names)-1] {
			r.fail("names out of order")
		}
		if r.err != nil {
			return nil
		}
		names = append(names, name)
	}
	return names
}

const (
	// 1/deliveryFraction of the release timeout is reserved for delivering the release notes to
	// the leader. minDeliveryTime is the minimum of that reserve, unless it is more than a
	// quarter of the release timeout.
	deliveryFraction = 16
	minDeliveryTime  = 100 * time.Millisecond
)

// NoteDeliveryTime returns the part of a release timeout that a node reserves for delivering
// release notes to the leader.
func NoteDeliveryTime(releaseTimeout time.Duration) time.Duration {
	minimum := min(minDeliveryTime, releaseTimeout/4)
	return max(releaseTimeout/deliveryFraction, minimum)
}
