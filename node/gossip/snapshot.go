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
	// maxGoneMembers is the maximum number of left or failed members in the file, and maxAliveMembers that of the others.
	maxGoneMembers  = 1024
	maxAliveMembers = 4096
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
	path      string // empty means no file
	writeFile func(path string, data []byte) error
	changed   chan struct{} // capacity 1; the file must be written

	// mu protects the following fields, except savedContent.
	mu           sync.Mutex
	members      map[string]seenMember // by name
	lastSeq      uint64                // last assigned seenMember.seq
	lamportClock uint64                // highest Lamport time of Serf
	frozen       bool                  // this member leaves: members that leave at the same time stay in the file
	savedContent []byte                // content of the file; used only by save
}

// seenMember is a member that was seen.
type seenMember struct {
	name   string
	addr   netip.AddrPort
	isGone bool   // the member has left or failed
	seq    uint64 // a later observation has a higher number
}

// openSnapshot reads a file. An error means that it was not read completely. The snapshot can be
// used nevertheless, but a file that cannot be opened is not overwritten.
func openSnapshot(path string) (*memberSnapshot, error) {
	snapshot := &memberSnapshot{path: path, writeFile: replaceFile, changed: make(chan struct{}, 1), members: make(map[string]seenMember)}
	if path == "" {
		return snapshot, nil
	}
	file, err := os.Open(path) //nolint:gosec // the operator names the directory
	if errors.Is(err, fs.ErrNotExist) {
		return snapshot, nil
	}
	if err != nil {
		snapshot.path = ""
		return snapshot, err
	}
	return snapshot, errors.Join(snapshot.read(io.LimitReader(file, maxSnapshotSize)), file.Close())
}

// read parses a file. It ignores unknown lines, and a last line without a newline, because Serf
// may have been stopped while it wrote the line.
func (s *memberSnapshot) read(reader io.Reader) error {
	text, err := io.ReadAll(reader)
	invalidLines := 0
	for rawLine := range strings.Lines(string(text)) {
		if line, complete := strings.CutSuffix(rawLine, "\n"); complete && !s.parseLine(line) {
			invalidLines++
		}
	}
	if err == nil && len(text) == maxSnapshotSize {
		err = fmt.Errorf("it is longer than %d bytes", maxSnapshotSize)
	}
	if err == nil && invalidLines > 0 {
		err = fmt.Errorf("%d lines are invalid", invalidLines)
	}
	return err
}

// parseLine parses a line. It returns false if the line is not valid.
func (s *memberSnapshot) parseLine(line string) bool {
	keyword, rest, _ := strings.Cut(line, ": ")
	switch keyword {
	case "alive":
		space := strings.LastIndexByte(rest, ' ')
		addr, err := netip.ParseAddrPort(rest[space+1:])
		if space < 1 || err != nil {
			return false
		}
		s.addAlive(rest[:space], addr)
	case "not-alive":
		s.markGone(rest)
	case "clock":
		clock, err := strconv.ParseUint(rest, 10, 64)
		if err != nil || clock > maxClock {
			return false
		}
		s.lamportClock = max(s.lamportClock, clock)
	case "event-clock", "query-clock", "coordinate", "leave": // about events, which dropNonMembershipMessages disables, or about leaving, which does not matter after a restart
	default:
		return line == "" || line[0] == '#'
	}
	return true
}

// addAlive records a member that is alive, unless a line cannot represent its name. The names of
// nodes can always be represented.
func (s *memberSnapshot) addAlive(name string, addr netip.AddrPort) {
	if name == "" || len(name) > maxNameLen || strings.ContainsAny(name, "\r\n") || !addr.IsValid() {
		return
	}
	s.lastSeq++
	s.members[name] = seenMember{name: name, addr: addr, seq: s.lastSeq}
}

// markGone records that a member has left or failed.
func (s *memberSnapshot) markGone(name string) {
	if member, ok := s.members[name]; ok && !member.isGone {
		s.lastSeq++
		member.isGone, member.seq = true, s.lastSeq
		s.members[name] = member
	}
}

// prune removes the oldest members beyond the limits and returns the others in the order of
// observation.
func (s *memberSnapshot) prune() []seenMember {
	members := slices.SortedFunc(maps.Values(s.members), func(a, b seenMember) int { return cmp.Compare(b.seq, a.seq) })
	remaining := map[bool]int{true: maxGoneMembers, false: maxAliveMembers}
	members = slices.DeleteFunc(members, func(member seenMember) bool {
		if remaining[member.isGone]--; remaining[member.isGone] >= 0 {
			return false
		}
		delete(s.members, member.name)
		return true
	})
	slices.Reverse(members)
	return members
}

// onEvent records members that have joined, left or failed.
func (s *memberSnapshot) onEvent(event serf.Event) {
	memberEvent, ok := event.(serf.MemberEvent)
	if !ok || s.path == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen {
		return
	}
	for _, member := range memberEvent.Members {
		switch memberEvent.Type {
		case serf.EventMemberJoin:
			s.addAlive(member.Name, addrOf(member))
		case serf.EventMemberLeave, serf.EventMemberFailed:
			s.markGone(member.Name)
		case serf.EventMemberUpdate, serf.EventMemberReap, serf.EventUser, serf.EventQuery:
		}
	}
	notify(s.changed)
}

// freeze keeps the members as they are now.
func (s *memberSnapshot) freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = true
}

// aliveMembers returns the members that were alive last.
func (s *memberSnapshot) aliveMembers() []seenMember {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(s.prune(), func(member seenMember) bool { return member.isGone })
}

// save writes the file if the content has changed, and reports whether the content had changed.
// Calls must not overlap.
func (s *memberSnapshot) save(clock uint64) (bool, error) {
	if s.path == "" {
		return false, nil
	}
	content := s.encode(clock)
	if bytes.Equal(content, s.savedContent) {
		return false, nil
	}
	err := s.writeFile(s.path, content)
	if err == nil {
		s.savedContent = content
	}
	return true, err
}

// encode returns the content of the file.
func (s *memberSnapshot) encode(clock uint64) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if clock <= maxClock { // a higher value is not genuine
		s.lamportClock = max(s.lamportClock, clock)
	}
	var content bytes.Buffer
	for _, member := range s.prune() {
		fmt.Fprintf(&content, "alive: %s %s\n", member.name, member.addr)
		if member.isGone {
			fmt.Fprintf(&content, "not-alive: %s\n", member.name)
		}
	}
	fmt.Fprintf(&content, "clock: %d\n", s.lamportClock)
	return content.Bytes()
}

// replaceFile replaces a file atomically. It does not write to an existing object at the temporary
// path, such as a pipe or a hard link.
func replaceFile(path string, data []byte) error {
	temporary := path + ".tmp"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the directory
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// saveInterval is the minimum interval between two writes, because many members can join at once.
const saveInterval = 500 * time.Millisecond

// lastSaveTimeout is how long Run waits for the last write.
const lastSaveTimeout = 3 * time.Second

// snapshotLoop writes the snapshot when it has changed, and once more at the end.
func (g *Gossip) snapshotLoop() {
	succeeded := true
	save := func() bool {
		changed, err := g.snapshot.save(g.lamportTime())
		if err != nil && succeeded {
			g.log.Warn().Err(err).Str("file", g.snapshot.path).Str("effect", "after a restart this node contacts only its join addresses").Msg("list of known members not written")
		}
		succeeded = err == nil
		return changed
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
	last, err := strconv.ParseUint(g.serf.Stats()["member_time"], 10, 64)
	if err != nil || last == 0 {
		return 0
	}
	return last - 1
}
