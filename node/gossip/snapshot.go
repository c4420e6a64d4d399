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
	// maxSnapshotSize limits the bytes that are read from a file.
	maxSnapshotSize = 4 << 20
	// maxGone is the maximum number of left or failed members in the file, and maxAlive of the others.
	maxGone  = 1024
	maxAlive = 4096
	// maxNameLen limits member names, in bytes. Serf has no limit, and the file must be shorter than
	// maxSnapshotSize.
	maxNameLen = 255
	// maxClock is the maximum accepted Lamport time. Incrementing it cannot overflow in practice.
	maxClock = 1 << 62
)

// memberSnapshot stores the seen members in a file. After a restart the node contacts them, and a
// recovery uses them as evidence that a cluster is alive.
//
// Serf has a similar snapshot, but checks twice a second whether it must write. The lines are
// those of Serf ("alive: name addr", "not-alive: name", "clock: n"), so each implementation can
// read the file of the other. A member that is gone has both lines, in the order in which Serf
// appends them.
//
// onEvent never waits for the disk, because its caller blocks membership.
type memberSnapshot struct {
	path    string // empty means no file
	write   func(path string, data []byte) error
	changed chan struct{} // capacity 1; the file must be written

	// mu protects the following fields, except saved.
	mu      sync.Mutex
	seen    map[string]seenMember // by name
	lastSeq uint64                // last assigned seenMember.seq
	clock   uint64                // highest Lamport time of Serf
	frozen  bool                  // this member leaves: members that leave at the same time stay in the file
	saved   []byte                // content of the file; used only by save
}

// seenMember is a member that was seen.
type seenMember struct {
	name string
	addr netip.AddrPort
	gone bool
	seq  uint64 // a later observation has a higher number
}

// openSnapshot reads a file. An error means that it was not read completely. The snapshot can be
// used nevertheless, but a file that cannot be opened is not overwritten.
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

// read parses a file. It ignores unknown lines, and a last line without a newline, because Serf
// may have been stopped while it wrote the line.
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

// parseLine parses a line. It returns false if the line is not valid.
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
	case "event-clock", "query-clock", "coordinate", "leave": // about events, which dropOtherMessages disables, or about leaving, which does not matter after a restart
	default:
		return l == "" || l[0] == '#'
	}
	return true
}

// addAlive records a member that is alive, unless a line cannot represent its name. The names of
// nodes can always be represented.
func (r *memberSnapshot) addAlive(name string, addr netip.AddrPort) {
	if name == "" || len(name) > maxNameLen || strings.ContainsAny(name, "\r\n") || !addr.IsValid() {
		return
	}
	r.lastSeq++
	r.seen[name] = seenMember{name: name, addr: addr, seq: r.lastSeq}
}

// markGone records that a member has left or failed.
func (r *memberSnapshot) markGone(name string) {
	if s, ok := r.seen[name]; ok && !s.gone {
		r.lastSeq++
		s.gone, s.seq = true, r.lastSeq
		r.seen[name] = s
	}
}

// prune removes the oldest members beyond the limits and returns the others in the order of
// observation.
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

// onEvent records members that have joined, left or failed.
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

// freeze keeps the members as they are now.
func (r *memberSnapshot) freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = true
}

// aliveMembers returns the members that were alive last.
func (r *memberSnapshot) aliveMembers() []seenMember {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(r.prune(), func(s seenMember) bool { return s.gone })
}

// save writes the file if the content has changed, and reports whether it had. Calls must not
// overlap.
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

// encode returns the content of the file.
func (r *memberSnapshot) encode(clock uint64) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if clock <= maxClock { // a higher value is not genuine
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

// replaceFile replaces a file atomically. It does not write to an existing object at the temporary
// path, such as a pipe or a hard link.
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

// saveInterval is the minimum interval between two writes, because many members can join at once.
const saveInterval = 500 * time.Millisecond

// lastSaveTimeout is how long Run waits for the last write.
const lastSaveTimeout = 3 * time.Second

// snapshotLoop writes the snapshot when it has changed, and once more at the end.
func (g *Gossip) snapshotLoop() {
	succeeded := true
	save := func() bool {
		wrote, err := g.snapshot.save(g.lamportTime())
		if err != nil && succeeded {
			g.log.Warn().Err(err).Str("file", g.snapshot.path).Str("effect", "after a restart this node contacts only its join addresses").Msg("list of known members not written")
		}
		succeeded = err == nil
		return wrote
	}
	defer save()
	for {
		select {
		case <-g.snapshot.changed:
		case <-g.serf.ShutdownCh():
			return
		}
		if !save() {
			continue
		}
		select {
		case <-time.After(saveInterval):
		case <-g.serf.ShutdownCh():
			return
		}
	}
}

// lamportTime returns the last used Lamport time of Serf.
func (g *Gossip) lamportTime() uint64 {
	n, err := strconv.ParseUint(g.serf.Stats()["member_time"], 10, 64)
	if err != nil || n == 0 {
		return 0
	}
	return n - 1
}
