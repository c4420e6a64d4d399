package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/serf/serf"
	"github.com/rs/zerolog"
)

var somewhere = netip.MustParseAddrPort("10.0.0.1:1")

// Whatever names members have, the snapshot is loaded again without errors. A member whose name does not fit on a line is not written.
func TestWhatIsRecordedIsReadAgain(t *testing.T) {
	ip := net.IP{10, 0, 0, 1}
	for what, c := range map[string]struct {
		m    serf.Member
		kept bool
	}{
		"no address":  {m: serf.Member{Name: "x"}},
		"odd address": {m: serf.Member{Name: "x", Addr: net.IP{1, 2, 3}, Port: 7}},
		"no name":     {m: serf.Member{Addr: ip, Port: 7}},
		"long name":   {m: serf.Member{Name: strings.Repeat("x", maxNameLen+1), Addr: ip, Port: 7}},
		"line":        {m: serf.Member{Name: "x\nclock: 7", Addr: ip, Port: 7}},
		"no port":     {m: serf.Member{Name: "x", Addr: ip}, kept: true},
		"key word":    {m: serf.Member{Name: "clock: 7", Addr: ip, Port: 1}, kept: true},
		"a line":      {m: serf.Member{Name: "alive: a 10.0.0.1:1", Addr: ip, Port: 1}, kept: true},
		"spaces":      {m: serf.Member{Name: "  a  ", Addr: ip, Port: 1}, kept: true},
		"odd bytes":   {m: serf.Member{Name: "a\x00\xff\u2028\x85\v\f", Addr: ip, Port: 1}, kept: true},
		"longest":     {m: serf.Member{Name: strings.Repeat("x", maxNameLen), Addr: ip, Port: 7}, kept: true},
	} {
		path := filepath.Join(t.TempDir(), "gossip")
		r, _ := openSnapshot(path)
		r.onEvent(serf.MemberEvent{Type: serf.EventMemberJoin, Members: []serf.Member{c.m}})
		if _, err := r.save(3); err != nil {
			t.Fatal(err)
		}
		again, err := openSnapshot(path)
		kept := len(again.aliveMembers()) == 1 && again.aliveMembers()[0].name == c.m.Name
		if err != nil || kept != c.kept || len(again.aliveMembers()) > 1 || again.lamportClock != 3 {
			t.Errorf("%s: %v, clock %d, %v", what, err, again.lamportClock, again.aliveMembers())
		}
	}
}

// A clock value that no cluster can have reached is forged, and replaces no other value.
func TestAClockThatIsMadeUpIsNotRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gossip")
	r, _ := openSnapshot(path)
	r.addAlive("a", somewhere)
	for _, clock := range []uint64{41, 1<<63 - 1} {
		if _, err := r.save(clock); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := openSnapshot(path); err != nil || again.lamportClock != 41 {
		t.Errorf("clock %d, %v; want 41", again.lamportClock, err)
	}
}

// However many members come and go, the snapshot stays short enough to be loaded as a whole, and contains the newest ones.
func TestTheRecordIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gossip")
	r, _ := openSnapshot(path)
	long := strings.Repeat("x", maxNameLen-10)
	for i := range 3 * maxAliveMembers {
		r.addAlive(fmt.Sprintf("%06d%s", i, long), netip.MustParseAddrPort("[2001:db8:1111:2222:3333:4444:5555:6666]:65535"))
	}
	for i := range 3 * maxGoneMembers {
		name := fmt.Sprintf("g%06d%s", i, long)
		r.addAlive(name, somewhere)
		r.markGone(name)
	}
	r.addAlive("newest", somewhere)
	if _, err := r.save(41); err != nil {
		t.Fatal(err)
	}
	if n := len(r.members); n != maxAliveMembers+maxGoneMembers {
		t.Errorf("%d are held, want %d", n, maxAliveMembers+maxGoneMembers)
	}
	again, err := openSnapshot(path)
	if err != nil || again.lamportClock != 41 || len(again.members) != maxAliveMembers+maxGoneMembers || again.members["newest"].name == "" {
		t.Errorf("read again: %v, clock %d, %d members, the newest %+v", err, again.lamportClock, len(again.members), again.members["newest"])
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("# long\n", maxSnapshotSize/7+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openSnapshot(path); err == nil {
		t.Error("a file that is longer than what is read is read without a word")
	}
}

// A file in place of the new one is not written to, and does not block.
func TestSnapshotReplacesFileAtomically(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "gossip"), filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, lies := range map[string]func() error{
		"a pipe":       func() error { return syscall.Mkfifo(path+".tmp", 0o600) },
		"another name": func() error { return os.Link(other, path+".tmp") },
		"a link":       func() error { return os.Symlink(other, path+".tmp") },
	} {
		if err := lies(); err != nil {
			t.Fatal(err)
		}
		if err := replaceFile(path, []byte(what)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		is, err := os.ReadFile(path)
		was, errs := os.ReadFile(other)
		if err = errors.Join(err, errs); err != nil || string(is) != what || string(was) != "precious" {
			t.Errorf("%s: the file says %q, the other %q, %v", what, is, was, err)
		}
	}
}

// A node with a stalled disk ends all the same.
func TestARecordThatHangsHoldsUpNoEnd(t *testing.T) {
	g, err := New(Options{Name: "a", BindAddr: "127.0.0.1:0", SnapshotPath: filepath.Join(t.TempDir(), "gossip"), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	if err = g.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	hangs, writes := make(chan struct{}), make(chan struct{})
	begun := sync.OnceFunc(func() { close(writes) })
	g.snapshot.writeFile = func(string, []byte) error { begun(); <-hangs; return nil }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	<-writes
	cancel()
	select {
	case err = <-done:
	case <-time.After(20 * lastSaveTimeout):
		err = errors.New("it has not ended")
	}
	close(hangs)
	if err != nil {
		t.Error(err)
	}
}
