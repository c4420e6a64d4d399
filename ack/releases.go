package ack

import (
	"crypto/sha256"
	"slices"
	"strings"

	"shardway/shardmap"
)

// Bounds of what one owner leaves to the next.
const (
	// MaxNote is how long the note of a shard may be, in bytes.
	MaxNote = 1 << 10
	// MaxNotes and MaxNoteBytes bound the notes that a node gives up shards with for one
	// proposal, those of one commit, and those that a State keeps.
	MaxNotes     = 1024
	MaxNoteBytes = 128 << 10
)

// Released is a shard that its app has released: what the note points at is final.
type Released struct {
	Shard shardmap.Shard
	// From is whose app did, of a shard that its owner gives back as it got it; empty:
	// the owner's own.
	From shardmap.NodeID
	// Note is what that release left, up to MaxNote bytes; nil: nothing.
	Note []byte
}

// Releases is what a node tells the leader of the shards that it gives up for one
// proposal, or, saying goodbye until it is back, of all that it has. It travels beside the heartbeats, for it may be long, and the heartbeat that
// acknowledges the proposal carries its digest.
type Releases struct {
	// Level is what it is written at, as of a heartbeat.
	Level Level
	Node  shardmap.NodeID
	// Server, Boot and Proposal are what it is bound to: no other disk, process or
	// proposal gives up shards with it.
	Server   string
	Boot     uint64
	Proposal shardmap.Epoch
	// Shards has those that were released, ordered by number.
	Shards []Released
	// Over are shards whose notes did not fit into MaxNotes and MaxNoteBytes any more:
	// they move unreleased. It does not travel.
	Over []shardmap.Shard
}

// Digest returns what the heartbeat carries. It is never zero.
func (r *Releases) Digest() [sha256.Size]byte {
	b, _ := r.MarshalBinary()
	return sha256.Sum256(b)
}

// MarshalBinary returns what travels. It does not fail.
func (r *Releases) MarshalBinary() ([]byte, error) {
	w := newWriter(r.Level)
	w.text(string(r.Node))
	w.text(r.Server)
	w.uint(r.Boot)
	w.uint(uint64(r.Proposal))
	w.releases(r.Shards)
	return w.b, nil
}

// UnmarshalBinary reads what MarshalBinary wrote; else ErrCorrupt.
func (r *Releases) UnmarshalBinary(b []byte) error {
	d := reader{b: b}
	*r = Releases{
		Level: d.level(), Node: shardmap.NodeID(d.text(1, maxText)), Server: d.text(1, 2*maxText),
		Boot: d.uint(1, maxUint), Proposal: shardmap.Epoch(d.uint(1, maxUint)), Shards: d.releases(),
	}
	if !strings.HasPrefix(r.Server, string(r.Node)+"/") {
		d.fail("server of another node")
	}
	return d.end()
}

// released writes shards in their order, each by its distance from the one before, and
// whose release it was by the place of the name, the first being 1 and the owner's own 0.
func (w *writer) releases(list []Released) {
	var names []string
	for _, x := range list {
		if x.From != "" {
			names = append(names, string(x.From))
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	w.servers(names)
	w.uint(uint64(len(list)))
	next := shardmap.Shard(0)
	for _, x := range list {
		at, found := slices.BinarySearch(names, string(x.From))
		if found {
			at++
		} else {
			at = 0
		}
		w.uint(uint64(x.Shard - next))
		w.uint(uint64(at))
		w.bytes(x.Note)
		next = x.Shard + 1
	}
}

// released reads what the writer wrote.
func (r *reader) releases() []Released {
	names := append([]string{""}, r.servers()...)
	var list []Released
	used := map[uint64]bool{}
	next, total := uint64(0), noteBudget{}
	for range r.uint(0, MaxShards) {
		s, at, note := next+r.uint(0, MaxShards), r.uint(0, uint64(len(names)-1)), r.note()
		if s >= MaxShards {
			r.fail("no such shard")
		}
		if !total.add(note) {
			r.fail("too many notes")
		}
		if r.err != nil {
			return nil
		}
		list = append(list, Released{Shard: shardmap.Shard(s), From: shardmap.NodeID(names[at]), Note: note})
		next, used[at] = s+1, true
	}
	delete(used, 0)
	if len(used) != len(names)-1 {
		r.fail("a name that is nobody's")
	}
	return list
}

func (r *reader) note() []byte {
	n := r.take(int(r.uint(0, MaxNote)))
	if len(n) == 0 {
		return nil
	}
	return slices.Clone(n)
}

// room counts notes up to their bounds.
type noteBudget struct{ notes, bytes int }

// takes reports whether a note fits, and counts it if it does.
func (r *noteBudget) add(note []byte) bool {
	if len(note) == 0 {
		return true
	}
	if len(note) > MaxNote || r.notes == MaxNotes || r.bytes+len(note) > MaxNoteBytes {
		return false
	}
	r.notes, r.bytes = r.notes+1, r.bytes+len(note)
	return true
}

// nodeOf returns the node that a server is of.
func nodeOf(server string) shardmap.NodeID {
	return shardmap.NodeID(server[:max(strings.LastIndexByte(server, '/'), 0)])
}

// servers writes names in order.
func (w *writer) servers(list []string) {
	w.uint(uint64(len(list)))
	for _, s := range list {
		w.text(s)
	}
}

func (r *reader) servers() []string {
	var list []string
	for range r.uint(0, shardmap.MaxMembers) {
		s := r.text(1, 2*maxText)
		if len(list) > 0 && s <= list[len(list)-1] {
			r.fail("servers out of order")
		}
		if r.err != nil {
			return nil
		}
		list = append(list, s)
	}
	return list
}
