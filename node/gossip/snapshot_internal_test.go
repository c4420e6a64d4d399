package gossip

import (
	"io"
	"log"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

func seenAs(name, addr string) serf.Member {
	at := netip.MustParseAddrPort(addr)
	return serf.Member{Name: name, Addr: net.IP(at.Addr().AsSlice()), Port: at.Port()}
}

// sendJoinAndFail sends Serf's events of two members that joined, one of which failed.
func sendJoinAndFail(learn func(serf.Event)) {
	learn(serf.MemberEvent{Type: serf.EventMemberJoin, Members: []serf.Member{seenAs("a", "10.0.0.1:7946"), seenAs("b b", "[2001:db8::2]:7")}})
	learn(serf.MemberEvent{Type: serf.EventMemberFailed, Members: []serf.Member{seenAs("a", "10.0.0.1:7946")}})
}

// snapshotter opens a file as an older version of the node does. stop waits until everything is written.
func snapshotter(t *testing.T, path string, clock *serf.LamportClock) (in chan<- serf.Event, s *serf.Snapshotter, stop func()) {
	t.Helper()
	down := make(chan struct{})
	in, s, err := serf.NewSnapshotter(path, 1<<17, true, log.New(io.Discard, "", 0), clock, nil, down)
	if err != nil {
		t.Fatal(err)
	}
	return in, s, func() {
		close(down)
		s.Wait()
	}
}

// A node may be replaced by one of an older version, or the other way around.
func TestRecordIsReadBySerf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gossip")
	r, err := openSnapshot(path)
	if err != nil {
		t.Fatal(err)
	}
	sendJoinAndFail(r.onEvent)
	if _, err := r.save(41); err != nil {
		t.Fatal(err)
	}
	// A recovery also dials members that were considered dead.
	const want = "alive: b b [2001:db8::2]:7\nalive: a 10.0.0.1:7946\nnot-alive: a\nclock: 41\n"
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("record %q, %v, want %q", text, err, want)
	}
	_, s, stop := snapshotter(t, path, new(serf.LamportClock))
	defer stop()
	if got := s.AliveNodes(); len(got) != 1 || *got[0] != (serf.PreviousNode{Name: "b b", Addr: "[2001:db8::2]:7"}) || s.LastClock() != 41 {
		t.Errorf("Serf reads %v, clock %d", got, s.LastClock())
	}
}

func TestRecordReadsWhatSerfWrote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gossip")
	synctest.Test(t, func(t *testing.T) {
		var clock serf.LamportClock
		clock.Witness(41)
		in, s, stop := snapshotter(t, path, &clock)
		sendJoinAndFail(func(e serf.Event) { in <- e })
		synctest.Wait() // Serf never writes events that it has not processed when it leaves
		s.Leave()
		stop()
	})
	r, err := openSnapshot(path)
	if err != nil {
		t.Fatal(err)
	}
	if alive := r.aliveMembers(); len(alive) != 1 || alive[0].name != "b b" || r.lamportClock != 41 {
		t.Errorf("alive %v, clock %d, want b b, 41", alive, r.lamportClock)
	}
	const want = "alive: b b [2001:db8::2]:7\nalive: a 10.0.0.1:7946\nnot-alive: a\nclock: 41\n"
	if text := string(r.encode(0)); text != want {
		t.Errorf("it is kept as %q, want %q", text, want)
	}
}

// A node starts although its snapshot is damaged, or was written by another program.
func TestRecordMakesTheMostOfABrokenFile(t *testing.T) {
	const good = "alive: a 10.0.0.1:7946\n"
	for name, tt := range map[string]struct {
		text  string
		alive []string
		clock uint64
		odd   bool
	}{
		"empty":              {"", nil, 0, false},
		"cut short":          {good + "clock: 7\nalive: b 10.0.0.1:79", []string{"a"}, 7, false},
		"zeros":              {good + strings.Repeat("\x00", 1<<17) + "\n", []string{"a"}, 0, true},
		"without an address": {good + "alive: b\nalive: \nalive:\nalive:  \nalive: b :1\nalive: b host:1\nalive: 10.0.0.1:1\n", []string{"a"}, 0, true},
		"clock":              {"clock: -1\nclock: x\nclock: 18446744073709551615\nclock: \n" + good, []string{"a"}, 0, true},
		"gone":               {good + "not-alive: \nnot-alive: b\nnot-alive: a\nnot-alive: a\n", nil, 0, false},
		"other lines":        {"# x\n\nleave\nevent-clock: 1\nquery-clock: x\ncoordinate: {}\n" + good, []string{"a"}, 0, false},
		"came back":          {good + "not-alive: a\n" + good, []string{"a"}, 0, false},
		"JSON":               {`{"a": 1}` + "\n", nil, 0, true},
	} {
		path := filepath.Join(t.TempDir(), "gossip")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := openSnapshot(path)
		var alive []string
		for _, s := range r.aliveMembers() {
			alive = append(alive, s.name)
		}
		if (err != nil) != tt.odd || !slices.Equal(alive, tt.alive) || r.lamportClock != tt.clock {
			t.Errorf("%s: alive %v, clock %d, %v", name, alive, r.lamportClock, err)
		}
	}
	if r, err := openSnapshot(t.TempDir()); err == nil || len(r.aliveMembers()) > 0 {
		t.Error("a directory is no record")
	}
}

func TestSnapshotDropsMembersGoneLongest(t *testing.T) {
	r, err := openSnapshot("")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort("10.0.0.1:1")
	r.addAlive("there", at)
	for i := range maxGoneMembers + 2 {
		name := "x" + strconv.Itoa(i+1)
		r.addAlive(name, at)
		r.markGone(name)
	}
	all := r.prune()
	if len(all) != maxGoneMembers+1 || all[0].name != "there" || all[1].name != "x3" {
		t.Errorf("%d sights, %q and %q first", len(all), all[0].name, all[1].name)
	}
	r.addAlive("y\nalive: z 10.0.0.1:1", at)
	if len(r.prune()) != len(all) {
		t.Error("a name of two lines is written")
	}
}

// The snapshot also restores Serf's clock. Serf does that itself only with its own snapshot, and exports no other function for it.
func TestClockGoesOnWhereItWas(t *testing.T) {
	c := serf.DefaultConfig()
	c.NodeName, c.LogOutput, c.MemberlistConfig.LogOutput = "a", io.Discard, io.Discard
	c.MemberlistConfig.Transport = new(memberlist.MockNetwork).NewTransport("a")
	s, err := serf.Create(c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Shutdown() }()
	g := &Gossip{serf: s}
	for _, clock := range []uint64{0, 41, 7, 1 << 40, maxClock} {
		before := g.lamportTime()
		restoreLamportTime(c.MemberlistConfig.Delegate, clock)
		if got := g.lamportTime(); got != max(clock, before) {
			t.Errorf("clock %d after it was known to be %d", got, clock)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add("alive: b b [2001:db8::2]:7\nalive: a 10.0.0.1:7946\nnot-alive: a\nclock: 41\n")
	f.Add("alive: a 10.0.0.1:7946\r\nalive: \x00\n")
	f.Fuzz(func(t *testing.T, text string) {
		read := func(text string) string {
			r, err := openSnapshot("")
			if err != nil {
				t.Fatal(err)
			}
			_ = r.read(strings.NewReader(text)) // invalid lines
			return string(r.encode(0))
		}
		once := read(text)
		if twice := read(once); twice != once {
			t.Errorf("%q is read as %q", once, twice)
		}
	})
}
