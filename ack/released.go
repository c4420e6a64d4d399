package ack

import (
	"cmp"
	"crypto/sha256"
	"maps"
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
// proposal. It travels beside the heartbeats, for it may be long, and the heartbeat that
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
	w := begin(r.Level)
	w.text(string(r.Node))
	w.text(r.Server)
	w.uint(r.Boot)
	w.uint(uint64(r.Proposal))
	w.released(r.Shards)
	return w.b, nil
}

// UnmarshalBinary reads what MarshalBinary wrote; else ErrCorrupt.
func (r *Releases) UnmarshalBinary(b []byte) error {
	d := reader{b: b}
	*r = Releases{
		Level: d.level(), Node: shardmap.NodeID(d.text(1, maxText)), Server: d.text(1, 2*maxText),
		Boot: d.uint(1, maxUint), Proposal: shardmap.Epoch(d.uint(1, maxUint)), Shards: d.released(),
	}
	if !strings.HasPrefix(r.Server, string(r.Node)+"/") {
		d.fail("server of another node")
	}
	return d.end()
}

// released writes shards in their order, each by its distance from the one before, and
// whose release it was by the place of the name, the first being 1 and the owner's own 0.
func (w *writer) released(list []Released) {
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
func (r *reader) released() []Released {
	names := append([]string{""}, r.servers()...)
	var list []Released
	used := map[uint64]bool{}
	next, total := uint64(0), room{}
	for range r.uint(0, MaxShards) {
		s, at, note := next+r.uint(0, MaxShards), r.uint(0, uint64(len(names)-1)), r.note()
		if s >= MaxShards {
			r.fail("no such shard")
		}
		if !total.takes(note) {
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
type room struct{ notes, bytes int }

// takes reports whether a note fits, and counts it if it does.
func (r *room) takes(note []byte) bool {
	if len(note) == 0 {
		return true
	}
	if len(note) > MaxNote || r.notes == MaxNotes || r.bytes+len(note) > MaxNoteBytes {
		return false
	}
	r.notes, r.bytes = r.notes+1, r.bytes+len(note)
	return true
}

// left is what the state knows of a shard that was released before its present owner got
// it.
type left struct {
	// server is the disk of that owner which acknowledged the map: the only one that is
	// told.
	server string
	note   []byte
}

// Released returns what the release before the present ownership of the shard left, and
// the server that it is for; false: nobody knows that there was one.
func (s *State) Released(shard shardmap.Shard) (note []byte, server string, ok bool) {
	l, ok := s.left[shard]
	return l.note, l.server, ok
}

// leave notes with which releases shards pass on to the owners in the map that is being
// committed. What was known of earlier releases of theirs ends with that, however they move.
func (s *State) leave(c commit) {
	moves := shardmap.Diff(s.committed, s.last)
	if len(moves) == 0 {
		return
	}
	to := make(map[shardmap.Shard]shardmap.NodeID, len(moves))
	next := maps.Clone(s.left)
	for _, m := range moves {
		delete(next, m.Shard)
		if m.From != "" {
			to[m.Shard] = m.To
		}
	}
	servers := make(map[shardmap.NodeID]string, len(c.servers))
	for _, server := range c.servers {
		servers[nodeOf(server)] = server
	}
	for _, r := range c.released {
		server := servers[to[r.Shard]]
		if server == "" {
			continue // it does not move, or nobody knows where to
		}
		if next == nil {
			next = map[shardmap.Shard]left{}
		}
		next[r.Shard] = left{server: server, note: r.Note}
	}
	forgetNotes(next, s.last)
	s.left = next
}

// nodeOf returns the node that a server is of.
func nodeOf(server string) shardmap.NodeID {
	return shardmap.NodeID(server[:max(strings.LastIndexByte(server, '/'), 0)])
}

// forgetNotes keeps the notes bounded, the same way on every node: those of the oldest
// maps go first, for their shards were acquired long ago.
func forgetNotes(all map[shardmap.Shard]left, m *shardmap.Map) {
	shards := slices.Collect(maps.Keys(all))
	slices.SortFunc(shards, func(a, b shardmap.Shard) int {
		return cmp.Or(cmp.Compare(m.OwnedSince(b), m.OwnedSince(a)), cmp.Compare(a, b))
	})
	total := room{}
	for _, shard := range shards {
		if !total.takes(all[shard].note) {
			delete(all, shard)
		}
	}
}

// left writes what is known of releases.
func (w *writer) left(all map[shardmap.Shard]left) {
	var servers []string
	list := make([]Released, 0, len(all))
	for _, s := range slices.Sorted(maps.Keys(all)) {
		servers = append(servers, all[s].server)
		list = append(list, Released{Shard: s, Note: all[s].note})
	}
	slices.Sort(servers)
	w.servers(slices.Compact(servers))
	w.released(list)
}

// left reads what the writer wrote, of shards that go by m.
func (r *reader) left(m *shardmap.Map) map[shardmap.Shard]left {
	servers, list := r.servers(), r.released()
	if r.err != nil || len(servers)+len(list) == 0 {
		return nil
	}
	all, used := make(map[shardmap.Shard]left, len(list)), map[string]bool{}
	for _, x := range list {
		if int(x.Shard) >= m.Len() || x.From != "" {
			r.fail("a release of no shard, or with a name")
			return nil
		}
		owner := m.Owner(x.Shard)
		i := slices.IndexFunc(servers, func(s string) bool { return nodeOf(s) == owner })
		if owner == "" || i < 0 {
			r.fail("a release for nobody")
			return nil
		}
		all[x.Shard] = left{server: servers[i], note: x.Note}
		used[servers[i]] = true
	}
	if len(used) != len(servers) {
		r.fail("a server that gets nothing")
		return nil
	}
	return all
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
