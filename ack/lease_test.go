package ack_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// desk is the machine of a leader alone, with handmade messages.
type desk struct {
	t    *testing.T
	l    *leader.Leader
	now  time.Duration
	last shardmap.Epoch // the map that all have acknowledged
	beat map[shardmap.NodeID]uint64
	sent map[shardmap.NodeID]uint64 // number of the last answer
}

// newDesk returns the leader a of term 5 over the given voters, elected at zero
// with its barrier applied, and a committed map of a, b and c.
func newDesk(t *testing.T, voters ...string) *desk {
	t.Helper()
	return newDeskUnder(t, ack.TakeoverLease, voters...)
}

// newDeskUnder is newDesk with a takeover.
func newDeskUnder(t *testing.T, f ack.Takeover, voters ...string) *desk {
	t.Helper()
	d := &desk{t: t, beat: map[shardmap.NodeID]uint64{}, sent: map[shardmap.NodeID]uint64{}}
	state := servingUnder(t, f, "a", "b", "c").state
	d.last = state.Proposed().Epoch()
	d.l = leader.New(leader.Options{Server: "a/d", Term: 5, Pace: ack.DefaultPace(), Timing: ack.DefaultTiming(), State: state}, 0)
	others := slices.DeleteFunc([]string{"a/d", "b/d", "c/d"}, func(server string) bool { return slices.Contains(voters, server) })
	d.step(leader.Servers{Voters: voters, Nonvoters: others})
	d.step(leader.BarrierApplied{Started: 0})
	return d
}

func (d *desk) step(m leader.Message) []leader.Effect { return d.l.Step(d.now, m) }

// receiveHeartbeat sends a heartbeat that acknowledges the last proposal and echoes the last
// answer. It returns the answer.
func (d *desk) receiveHeartbeat(id shardmap.NodeID, change func(hb *ack.Heartbeat)) (ack.Answer, bool) {
	d.beat[id]++
	hb := ack.Heartbeat{
		Node: id, Server: string(id) + "/d", Boot: 1, Nonce: uint64(id[0]), Number: d.beat[id], Term: 5, Weight: 1,
		Echo: ack.Echo{Term: 5, Number: d.sent[id]}, Applied: d.last, Acked: d.last,
	}
	if change != nil {
		change(&hb)
	}
	for _, e := range d.step(leader.HeartbeatReceived{Heartbeat: hb, From: "of " + string(id)}) {
		if r, ok := e.(leader.Reply); ok {
			if r.Refusal == 0 {
				d.sent[id] = r.Number
			}
			return r.Answer, true
		}
	}
	return ack.Answer{}, false
}

// over reports whether another disk may use a node id.
func (d *desk) over(id shardmap.NodeID) bool {
	views := d.l.View(d.now)
	return views[slices.IndexFunc(views, func(v leader.MemberView) bool { return v.Node == id })].ProcessGone
}

// echoes reports whether the answers of the leader reach b.
func (d *desk) echoes() bool {
	views := d.l.View(d.now)
	return views[slices.IndexFunc(views, func(v leader.MemberView) bool { return v.Node == "b" })].LinkWorks
}

func (d *desk) readTerm(term uint64) { d.step(leader.TermRead{After: d.now, Term: term}) }

// All nodes except the leader answer what was sent at 100 ms. How long the leader may grant at
// 200 ms depends on the set of voters. With the barrier start as the only quorum time it may
// not start to grant.
func TestLeaseEndsOneLeaseAfterQuorumTime(t *testing.T) {
	for _, c := range []struct {
		voters []string
		speak  []shardmap.NodeID
		want   time.Duration
	}{
		{[]string{"a/d"}, nil, 500 * ms},
		{[]string{"a/d", "b/d"}, nil, 0},
		{[]string{"a/d", "b/d"}, []shardmap.NodeID{"b"}, 400 * ms},
		{[]string{"a/d", "b/d", "c/d"}, []shardmap.NodeID{"b"}, 400 * ms},
		{[]string{"a/d", "b/d", "c/d"}, []shardmap.NodeID{"x", "y"}, 0}, // they do not vote
		{[]string{"a/d", "b/d", "c/d", "e/d"}, []shardmap.NodeID{"b"}, 0},
		{[]string{"a/d", "b/d", "c/d", "e/d"}, []shardmap.NodeID{"b", "e"}, 400 * ms},
		{[]string{"a/d", "b/d", "c/d", "e/d", "f/d"}, []shardmap.NodeID{"b", "f"}, 400 * ms},
		{[]string{"a/d", "b/wiped", "c/d"}, []shardmap.NodeID{"b"}, 0},         // another disk does not confirm for it
		{[]string{"b/d", "c/d", "e/d"}, []shardmap.NodeID{"b", "c"}, 400 * ms}, // the leader does not vote
		{nil, []shardmap.NodeID{"b", "c"}, 0},
	} {
		d := newDesk(t, c.voters...)
		d.now = 50 * ms
		d.receiveHeartbeat("a", nil)
		d.now = 100 * ms
		for _, id := range c.speak {
			d.receiveHeartbeat(id, nil)
		}
		d.now = 200 * ms
		d.readTerm(5)
		for _, id := range c.speak {
			d.receiveHeartbeat(id, nil)
		}
		if a, _ := d.receiveHeartbeat("a", nil); a.ServeFor != c.want {
			t.Errorf("voters %v, %v speak: %v, want %v", c.voters, c.speak, a.ServeFor, c.want)
		}
	}
}

func TestLeaseNeedsMore(t *testing.T) {
	for name, change := range map[string]func(hb *ack.Heartbeat){
		"an acknowledgement of the committed map": func(hb *ack.Heartbeat) { hb.Acked-- },
		"to stay":            func(hb *ack.Heartbeat) { hb.Goodbye = true },
		"to own something":   func(hb *ack.Heartbeat) { hb.Gateway = true },
		"an echo":            func(hb *ack.Heartbeat) { hb.Echo = ack.Echo{} },
		"an echo of a term":  func(hb *ack.Heartbeat) { hb.Echo.Term = 4 },
		"a number that was":  func(hb *ack.Heartbeat) { hb.Echo.Number = 99 },
		"that it is a reply": func(hb *ack.Heartbeat) { hb.Echo.Number = 1 }, // to another node
	} {
		d := newDesk(t, "b/d")
		d.receiveHeartbeat("a", nil)
		d.now = 50 * ms
		d.receiveHeartbeat("b", nil)
		d.now = 100 * ms
		d.receiveHeartbeat("b", nil)
		if a, _ := d.receiveHeartbeat("b", change); a.ServeFor != 0 {
			t.Errorf("without %s: %v", name, a.ServeFor)
		}
		if a, _ := d.receiveHeartbeat("b", nil); a.ServeFor == 0 && name != "to stay" {
			t.Errorf("after a heartbeat without %s: nothing any more", name)
		}
	}
}

// A new leader hears first of a process on an earlier disk of node b. The process has echoed a
// response of an earlier leader. The process on the disk that is in the configuration may have a
// lease of the previous leader, so the other one waits for its end, and until its server is in the
// configuration.
func TestReplacedServerWaitsForLeasesOfPreviousLeader(t *testing.T) {
	for name, tc := range map[string]struct {
		added time.Duration // when the configuration contains the server
		want  time.Duration // when the process gets its first lease
	}{
		"its server is added at once":  {100 * ms, ack.DefaultTiming().LeaseExpiry()},
		"its server is added later":    {900 * ms, 900 * ms},
		"its server was in it already": {0, 100 * ms},
	} {
		d := newDesk(t, "a/d", "c/d")
		if tc.added == 0 {
			d = newDesk(t, "a/d", "b/earlier", "c/d")
		}
		heard := false
		for d.now = 50 * ms; d.now < 2*time.Second; d.now += 50 * ms {
			if tc.added > 0 && d.now >= tc.added {
				d.step(leader.Servers{Voters: []string{"a/d", "c/d"}, Nonvoters: []string{"b/earlier"}})
			}
			d.readTerm(5)
			d.receiveHeartbeat("c", nil)
			answer, _ := d.receiveHeartbeat("b", func(hb *ack.Heartbeat) {
				if hb.Server = "b/earlier"; !heard {
					hb.Echo = ack.Echo{Term: 4, Number: 17}
				}
			})
			heard = true
			if answer.ServeFor > 0 {
				break
			}
		}
		if late := d.now - tc.want; late < 0 || late > 100*ms {
			t.Errorf("%s: lease after %v, want %v", name, d.now, tc.want)
		}
	}
}

// An echo of an answer to the previous boot proves nothing about the link of this one, and an
// echo of an answer to another node does not count.
func TestEchoCountsForItsNodeOnly(t *testing.T) {
	d := newDesk(t, "b/d")
	d.receiveHeartbeat("b", nil)
	d.receiveHeartbeat("c", nil)
	d.step(leader.ConnClosed{Node: "b", Nonce: uint64('b')})
	d.now += 20 * ms
	old, others := d.sent["b"], d.sent["c"]
	second := func(echo uint64) func(hb *ack.Heartbeat) {
		return func(hb *ack.Heartbeat) { hb.Boot, hb.Nonce, hb.Echo.Number = 2, 99, echo }
	}
	for _, echo := range []uint64{old, old, old, others, others, others} {
		d.now += 10 * ms
		if a, _ := d.receiveHeartbeat("b", second(echo)); a.ServeFor != 0 || a.Refusal != 0 || d.echoes() {
			t.Fatalf("the second boot echoes %d, of %d to the first and %d to c: %+v, echoes %v", echo, old, others, a, d.echoes())
		}
	}
}

// The number of remembered answers of a node must not depend on the number of nodes. With 64
// nodes only the last answer was remembered.
func TestAnswersAreRememberedPerNode(t *testing.T) {
	d := newDesk(t, "b/d")
	var sent []uint64
	for range 6 {
		d.receiveHeartbeat("b", nil)
		sent = append(sent, d.sent["b"])
		for i := range 63 {
			d.receiveHeartbeat(shardmap.NodeID(fmt.Sprintf("n%d", i)), func(hb *ack.Heartbeat) { hb.Nonce = uint64(i) })
		}
		d.now += 10 * ms
	}
	for range 3 {
		d.now += 10 * ms
		if d.receiveHeartbeat("b", func(hb *ack.Heartbeat) { hb.Echo.Number = sent[2] }); !d.echoes() {
			t.Error("an echo of the fourth last answer is not known")
		}
	}
}

// A node with a first heartbeat is not silent, but has not proved that its link works. Three
// fresh echoes prove it.
func TestEchoProvesThatAnswersArrive(t *testing.T) {
	d := newDesk(t, "a/d")
	for i, want := range []bool{false, false, false, true, true} {
		d.now += 50 * ms
		d.receiveHeartbeat("b", func(hb *ack.Heartbeat) {
			if i == 0 {
				hb.Echo = ack.Echo{Term: 4, Number: 17}
			}
		})
		if got := d.echoes(); got != want {
			t.Errorf("heartbeat %d: echoes %v, want %v", i+1, got, want)
		}
	}
	d.now += 501 * ms
	if d.echoes() {
		t.Error("it is silent, and echoes")
	}
	if d.receiveHeartbeat("b", nil); d.echoes() {
		t.Error("it echoes an old answer, and that counts")
	}
}

// The first lease of a boot requires a quorum confirmation after the first heartbeat of that
// boot. A leader that was deposed before gets none.
func TestFirstLeaseOfABootNeedsALaterQuorum(t *testing.T) {
	d := newDesk(t, "a/d", "b/d", "c/d")
	d.now = 10 * ms
	d.receiveHeartbeat("c", nil)
	d.now = 50 * ms
	d.readTerm(5)
	if a, _ := d.receiveHeartbeat("c", nil); a.ServeFor != 0 {
		t.Errorf("%v with nobody but c, whose answer was sent with its first heartbeat", a.ServeFor)
	}
	d.now = 60 * ms
	d.readTerm(5)
	if a, _ := d.receiveHeartbeat("c", nil); a.ServeFor != 490*ms {
		t.Errorf("%v, want a lease from the answer of 50 ms on", a.ServeFor)
	}
}

func TestOtherTermsAreNotAnswered(t *testing.T) {
	d := newDesk(t, "a/d")
	for _, term := range []uint64{4, 6} {
		if _, ok := d.receiveHeartbeat("b", func(hb *ack.Heartbeat) { hb.Term = term }); ok {
			t.Errorf("a heartbeat of term %d was answered in term 5", term)
		}
	}
	if _, ok := d.receiveHeartbeat("b", nil); !ok {
		t.Error("one of term 5 was not")
	}
	d.readTerm(6)
	if _, ok := d.receiveHeartbeat("b", nil); ok {
		t.Error("answered after its own term had moved on")
	}
	d.readTerm(5)
	if _, ok := d.receiveHeartbeat("b", nil); ok {
		t.Error("a term that moved on came back")
	}
}

func TestHeartbeatCountsOnce(t *testing.T) {
	d := newDesk(t, "a/d")
	d.receiveHeartbeat("b", nil)
	for _, number := range []uint64{1, 0} {
		if _, ok := d.receiveHeartbeat("b", func(hb *ack.Heartbeat) { hb.Number = number }); ok {
			t.Errorf("number %d was answered after number 1", number)
		}
	}
}

func TestSecondProcessUnderANameIsRefused(t *testing.T) {
	d := newDesk(t, "b/d")
	twin := func(boot uint64) func(hb *ack.Heartbeat) {
		return func(hb *ack.Heartbeat) { hb.Boot, hb.Nonce, hb.Number, hb.Echo = boot, 99, d.beat["b"], ack.Echo{} }
	}
	for range 3 {
		d.now += 50 * ms
		d.receiveHeartbeat("b", nil)
	}
	for _, boot := range []uint64{1, 2} {
		if a, _ := d.receiveHeartbeat("b", twin(boot)); a.Refusal != ack.RefusedDuplicate || a.DuplicateAddr != "of b" || a.ServeFor != 0 {
			t.Errorf("boot %d of another process: %+v, want a refusal that names the first's address", boot, a)
		}
	}
	if a, _ := d.receiveHeartbeat("b", nil); a.Refusal != 0 || a.ServeFor == 0 {
		t.Errorf("the first process: %+v, want a lease", a)
	}
	// The first one's connection is gone; its lease runs.
	d.step(leader.ConnClosed{Node: "b", Nonce: 98})
	d.step(leader.ConnClosed{Node: "b", Nonce: uint64('b')})
	if a, _ := d.receiveHeartbeat("b", twin(2)); a.Refusal != ack.RefusedDuplicate || a.DuplicateAddr != "" {
		t.Errorf("while the lease runs: %+v, want a refusal without an address", a)
	}
	d.now += 551 * ms
	if a, _ := d.receiveHeartbeat("b", twin(2)); a.Refusal != 0 || a.Boot != 2 {
		t.Errorf("after its end: %+v, want an answer", a)
	}
	if a, _ := d.receiveHeartbeat("b", nil); a.Refusal != ack.RefusedRollback || a.KnownBoot != 2 {
		t.Errorf("the old boot of the same disk: %+v, want a refusal that names boot 2", a)
	}
}

// The end of the first process was not detected. It counts as gone after dead-after of
// silence.
func TestSilentProcessFreesItsNodeID(t *testing.T) {
	d := newDesk(t, "b/d")
	d.receiveHeartbeat("b", nil)
	next := func(hb *ack.Heartbeat) { hb.Boot, hb.Nonce = 2, 99 }
	d.now = 2500 * ms
	if a, _ := d.receiveHeartbeat("b", next); a.Refusal != ack.RefusedDuplicate {
		t.Errorf("after dead-after: %+v, want a refusal", a)
	}
	d.now += ms
	if a, _ := d.receiveHeartbeat("b", next); a.Refusal != 0 {
		t.Errorf("a moment later: %+v, want an answer", a)
	}
}

// A partitioned node was started again on another machine with an empty disk. Its connection
// was gone and its lease had expired. The second process once got a lease, and took requests
// under the epochs of the first, which still ran some.
func TestAnotherDiskWaitsForRequestsOfTheFirst(t *testing.T) {
	d := newDesk(t, "b/d")
	d.receiveHeartbeat("b", nil)
	granted := d.now
	second := func(hb *ack.Heartbeat) {
		hb.Server, hb.Boot, hb.Nonce, hb.Number, hb.Echo = "b/e", 2, 99, d.beat["b"], ack.Echo{}
	}
	d.step(leader.ConnClosed{Node: "b", Nonce: uint64('b')})
	for _, after := range []time.Duration{551 * ms, 2499 * ms} {
		d.now = granted + after
		if a, _ := d.receiveHeartbeat("b", second); a.Refusal != ack.RefusedDuplicate || a.ServeFor != 0 || d.over("b") {
			t.Errorf("%v after the first one's last lease: %+v, over %v; want a refusal", after, a, d.over("b"))
		}
	}
	d.now = granted + 2500*ms
	if a, _ := d.receiveHeartbeat("b", second); a.Refusal != 0 || !d.over("b") {
		t.Errorf("after dead-after: %+v, over %v; want an answer", a, d.over("b"))
	}
}

// Another disk may use a node id when the shards of the node may be taken, also at a new
// leader without any heartbeat.
func TestNodeIDIsFreeWhenItsShardsMayBeTaken(t *testing.T) {
	for _, c := range []struct {
		takeover ack.Takeover
		crashed  bool
		at       time.Duration
		over     bool
	}{
		{ack.TakeoverLease, false, 2499 * ms, false},
		{ack.TakeoverLease, false, 2500 * ms, true},
		{ack.TakeoverLease, true, 550 * ms, false},
		{ack.TakeoverLease, true, 551 * ms, true},
		{ack.TakeoverImmediate, true, 550 * ms, false},
		{ack.TakeoverTimeout, true, 2499 * ms, false},
		{ack.TakeoverTimeout, true, 2500 * ms, true},
	} {
		d := newDeskUnder(t, c.takeover, "a/d")
		if c.crashed {
			d.step(leader.CrashEvidence{Node: "b", Boot: 1, RedialStartedAt: d.now})
		}
		d.now = c.at
		if got := d.over("b"); got != c.over {
			t.Errorf("takeover %v, crashed %v, %v after the election: over %v, want %v", c.takeover, c.crashed, c.at, got, c.over)
		}
		if c.at < 2500*ms && d.over("c") {
			t.Errorf("%v after the election: c is over, of which nothing is known", c.at)
		}
	}
}

func TestViewListsMembers(t *testing.T) {
	d := newDesk(t, "a/d")
	d.now = 20 * ms
	d.receiveHeartbeat("b", nil)
	d.step(leader.CrashEvidence{Node: "c", Boot: 1, RedialStartedAt: d.now})
	d.step(leader.CrashEvidence{Node: "ignored", Boot: 1, RedialStartedAt: -1}) // from before the election
	d.now = 50 * ms
	var got strings.Builder
	for _, v := range d.l.View(d.now) {
		fmt.Fprintf(&got, "%s from %q, heard %v ago, silent %v, crashed %v, eligible %v\n", v.Node, v.From, v.SinceHeartbeat, v.Silent, v.Crashed, v.Eligible)
	}
	want := `a from "", heard -1ns ago, silent false, crashed false, eligible true
b from "of b", heard 30ms ago, silent false, crashed false, eligible true
c from "", heard -1ns ago, silent false, crashed true, eligible false
`
	if got.String() != want {
		t.Errorf("view\n%swant\n%s", got.String(), want)
	}
}

// The previous leader refused the second of two processes with one node id. The new leader
// gets the first heartbeat from that process, while the other one still has its lease.
func TestNodeWithoutEchoWaitsForLeasesOfThePreviousLeader(t *testing.T) {
	d := newDesk(t, "b/d")
	stranger := func(hb *ack.Heartbeat) {
		if d.sent["b"] == 0 {
			hb.Echo = ack.Echo{}
		}
	}
	for d.now < 550*ms {
		d.now += 50 * ms
		if a, _ := d.receiveHeartbeat("b", stranger); a.ServeFor != 0 {
			t.Fatalf("%v for a stranger, %v after the election", a.ServeFor, d.now)
		}
	}
	d.now += 50 * ms
	if a, _ := d.receiveHeartbeat("b", stranger); a.ServeFor == 0 {
		t.Error("nothing after every lease of the leader before has run out")
	}
	d = newDesk(t, "b/d")
	known := func(hb *ack.Heartbeat) {
		if d.sent["b"] == 0 {
			hb.Echo = ack.Echo{Term: 4, Number: 17}
		}
	}
	for range 2 {
		d.now += 50 * ms
		d.receiveHeartbeat("b", known)
	}
	if a, _ := d.receiveHeartbeat("b", known); a.ServeFor == 0 {
		t.Error("nothing for a node that shows an answer of the leader before")
	}
}
