package gossip

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/serf/serf"
)

const (
	// longestRecord bounds what is read of a file, in bytes.
	maxSnapshotSize = 4 << 20
	// mostGone is how many are kept that are not there any more, and mostAlive of the others.
	maxGone  = 1024
	maxAlive = 4096
	// longestName bounds names, in bytes. Serf has no bound, and what is written has to be shorter
	// than longestRecord.
	maxNameLen = 255
	// highestClock is the highest that is believed: counted on from, it never ends.
	maxClock = 1 << 62
)

// record is whom this member has seen, in a file: whom it asks when it is started again, and
// what a recovery takes for signs that a cluster lives. Serf has one like it, but looks twice a
// second whether there is something to write. The lines are Serf's ("alive: name addr",
// "not-alive: name", "clock: n"), so each reads what the other has left: who is gone has a line
// of both, as Serf appends them.
//
// learn never waits for the disk: who calls it keeps up membership itself.
type memberSnapshot struct {
	path    string // empty: nothing is kept
	write   func(path string, data []byte) error
	changed chan struct{} // 1: hint

	mu      sync.Mutex
	seen    map[string]seenMember // by name
	lastSeq uint64                // how many sights there were
	clock   uint64                // Serf's, as high as it is known to have been
	frozen  bool                  // this member leaves: that others do as well is no reason to forget them
	saved   []byte                // what the file says; only for keep
}

// sight is one member that was seen.
type seenMember struct {
	name string
	addr netip.AddrPort
	gone bool
	seq  uint64 // a later one has a higher number
}

// openRecord reads a file. An error says that not all of it was read; the record can be used,
// but nothing is written over a file that cannot be opened.
func openSnapshot(path string) (*memberSnapshot, error) {
	r := &memberSnapshot{path: path, write: replaceFile, changed: make(chan struct{}, 1), seen: make(map[string]seenMember)}
	if path == "" {
		return r, nil
	}
	f, err := os.Open(path) //nolint:gosec // the operator names the directory
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		r.path = ""
		return r, err
	}
	return r, errors.Join(r.read(io.LimitReader(f, maxSnapshotSize)), f.Close())
}

// read learns what a file says. What it makes nothing of it passes over, and a last line that
// has no end: Serf may have been stopped while it wrote it.
func (r *memberSnapshot) read(from io.Reader) error {
	text, err := io.ReadAll(from)
	odd := 0
	for l := range strings.Lines(string(text)) {
		if line, whole := strings.CutSuffix(l, "\n"); whole && !r.parseLine(line) {
			odd++
		}
	}
	if err == nil && len(text) == maxSnapshotSize {
		err = fmt.Errorf("it is longer than %d bytes", maxSnapshotSize)
	}
	if err == nil && odd > 0 {
		err = fmt.Errorf("%d lines say nothing that is known", odd)
	}
	return err
}

func (r *memberSnapshot) parseLine(l string) bool {
	word, rest, _ := strings.Cut(l, ": ")
	switch word {
	case "alive":
		i := strings.LastIndexByte(rest, ' ')
		addr, err := netip.ParseAddrPort(rest[i+1:])
		if i < 1 || err != nil {
			return false
		}
		r.addAlive(rest[:i], addr)
	case "not-alive":
		r.markGone(rest)
	case "clock":
		n, err := strconv.ParseUint(rest, 10, 64)
		if err != nil || n > maxClock {
			return false
		}
		r.clock = max(r.clock, n)
	case "event-clock", "query-clock", "coordinate", "leave": // of events, which confine turns off; who left comes back all the same
	default:
		return l == "" || l[0] == '#'
	}
	return true
}

// see notes one that is there, if it can be told in a line. No node has a name that cannot.
func (r *memberSnapshot) addAlive(name string, addr netip.AddrPort) {
	if name == "" || len(name) > maxNameLen || strings.ContainsAny(name, "\r\n") || !addr.IsValid() {
		return
	}
	r.lastSeq++
	r.seen[name] = seenMember{name: name, addr: addr, seq: r.lastSeq}
}

// lose notes that one is gone.
func (r *memberSnapshot) markGone(name string) {
	if s, ok := r.seen[name]; ok && !s.gone {
		r.lastSeq++
		s.gone, s.seq = true, r.lastSeq
		r.seen[name] = s
	}
}

// sights returns all in the order of their times. Those that are too many, seen or gone for
// longest, are forgotten.
func (r *memberSnapshot) prune() []seenMember {
	all := slices.SortedFunc(maps.Values(r.seen), func(a, b seenMember) int { return cmp.Compare(b.seq, a.seq) })
	room := map[bool]int{true: maxGone, false: maxAlive}
	all = slices.DeleteFunc(all, func(s seenMember) bool {
		if room[s.gone]--; room[s.gone] >= 0 {
			return false
		}
		delete(r.seen, s.name)
		return true
	})
	slices.Reverse(all)
	return all
}

// learn notes who came and who went.
func (r *memberSnapshot) onEvent(e serf.Event) {
	m, ok := e.(serf.MemberEvent)
	if !ok || r.path == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.frozen {
		return
	}
	for _, member := range m.Members {
		switch m.Type {
		case serf.EventMemberJoin:
			r.addAlive(member.Name, addrOf(member))
		case serf.EventMemberLeave, serf.EventMemberFailed:
			r.markGone(member.Name)
		case serf.EventMemberUpdate, serf.EventMemberReap, serf.EventUser, serf.EventQuery:
		}
	}
	notify(r.changed)
}

// leave keeps the members as they are.
func (r *memberSnapshot) freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = true
}

// alive returns who was there last.
func (r *memberSnapshot) aliveMembers() []seenMember {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(r.prune(), func(s seenMember) bool { return s.gone })
}

// keep writes what was learned, and reports whether there was anything new. Only one call may
// run at a time.
func (r *memberSnapshot) save(clock uint64) (bool, error) {
	if r.path == "" {
		return false, nil
	}
	text := r.encode(clock)
	if bytes.Equal(text, r.saved) {
		return false, nil
	}
	err := r.write(r.path, text)
	if err == nil {
		r.saved = text
	}
	return true, err
}

func (r *memberSnapshot) encode(clock uint64) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if clock <= maxClock { // else somebody has made it up
		r.clock = max(r.clock, clock)
	}
	var b bytes.Buffer
	for _, s := range r.prune() {
		fmt.Fprintf(&b, "alive: %s %s\n", s.name, s.addr)
		if s.gone {
			fmt.Fprintf(&b, "not-alive: %s\n", s.name)
		}
	}
	fmt.Fprintf(&b, "clock: %d\n", r.clock)
	return b.Bytes()
}

// replace writes a file whole or not at all. Whatever lies in its way, a pipe or another name of
// some file, is not written to.
func replaceFile(path string, data []byte) error {
	tmp := path + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the directory
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// recordPause is the least time between two writes of the record: many members come at once.
const saveInterval = 500 * time.Millisecond

// keptWithin is how long the end of a node waits for the last write of the record.
const lastSaveTimeout = 3 * time.Second

// keeping writes the record when it has changed, and once more at the end.
func (g *Gossip) snapshotLoop() {
	well := true
	keep := func() bool {
		wrote, err := g.snapshot.save(g.lamportTime())
		if err != nil && well {
			g.log.Warn().Err(err).Str("file", g.snapshot.path).Str("effect", "after a restart this node contacts only its join addresses").Msg("list of known members not written")
		}
		well = err == nil
		return wrote
	}
	defer keep()
	for {
		select {
		case <-g.snapshot.changed:
		case <-g.serf.ShutdownCh():
			return
		}
		if !keep() {
			continue
		}
		select {
		case <-time.After(saveInterval):
		case <-g.serf.ShutdownCh():
			return
		}
	}
}

// lamport returns the latest time of Serf's clock that was used.
func (g *Gossip) lamportTime() uint64 {
	n, err := strconv.ParseUint(g.serf.Stats()["member_time"], 10, 64)
	if err != nil || n == 0 {
		return 0
	}
	return n - 1
}
