package event_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/event"
)

// nodesOf returns the nodes of up to limit events. A Lost event is shown as lost:reason, with one
// exclamation mark for each missed event.
func nodesOf(t *testing.T, c *event.Cursor, limit int) string {
	t.Helper()
	events, _ := c.Next(limit)
	var b strings.Builder
	for _, e := range events {
		if e.Kind == event.Lost {
			b.WriteString(" lost:" + e.Reason + strings.Repeat("!", int(e.Missed)))
			continue
		}
		b.WriteString(" " + e.Node)
	}
	return strings.TrimSpace(b.String())
}

func ring(run uint64, nodes ...string) *event.Ring {
	r := event.NewRing(event.Options{Node: "a", RunID: run, Capacity: 3})
	for _, n := range nodes {
		r.Add(event.Event{Kind: event.NodeJoined, Node: n})
	}
	return r
}

func read(t *testing.T, r *event.Ring, after string) *event.Cursor {
	t.Helper()
	c, err := r.Read(after)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestReaderReceivesEachEventOnceAndTheNumberOfMissedEvents(t *testing.T) {
	r := ring(7, "1", "2")
	c := read(t, r, "")
	if got := nodesOf(t, c, 9); got != "1 2" {
		t.Errorf("first = %q, want all that are defaultCapacity", got)
	}
	if got := nodesOf(t, c, 9); got != "" {
		t.Errorf("second read = %q, want no events", got)
	}
	for _, n := range []string{"3", "4", "5", "6", "7"} {
		r.Add(event.Event{Kind: event.NodeJoined, Node: n})
	}
	if got := nodesOf(t, c, 2); got != "lost:overrun!! 5 6" {
		t.Errorf("after five more in a ring of three = %q", got)
	}
	if got := nodesOf(t, c, 2); got != "7" {
		t.Errorf("remaining events = %q", got)
	}
	if got := nodesOf(t, read(t, r, ""), 9); got != "5 6 7" {
		t.Errorf("new reader = %q, want the events of the ring without a Lost event", got)
	}
}

// The number alone would match a different event after a restart. The reader would miss the events
// before that one without notice.
func TestIDOfAnotherProcessMatchesNoEvent(t *testing.T) {
	before := ring(7, "1", "2")
	c := read(t, before, "")
	nodesOf(t, c, 9)
	id := c.After()
	if got := nodesOf(t, read(t, before, id), 9); got != "" {
		t.Errorf("the same process = %q, want no events", got)
	}
	after := ring(8, "3", "4", "5")
	if got := nodesOf(t, read(t, after, id), 9); got != "lost:restarted 3 4 5" {
		t.Errorf("another process = %q", got)
	}
	if got := nodesOf(t, read(t, ring(7), id), 9); got != "lost:restarted" {
		t.Errorf("number of a future event = %q", got)
	}
	for _, bad := range []string{"x", "7-1", "0000000000000007", "0000000000000007-", "-1", "000000000000000g-1", "0000000000000007-99999999999999999999"} {
		if _, err := before.Read(bad); err == nil {
			t.Errorf("Read(%q) = nil error", bad)
		}
	}
}

func TestReaderCanContinueAfterALostEvent(t *testing.T) {
	r := ring(7, "1", "2", "3", "4", "5")
	c := read(t, r, "0000000000000007-1")
	events, _ := c.Next(1)
	if len(events) != 2 || events[0].Kind != event.Lost || events[0].Missed != 1 {
		t.Fatalf("Next = %v, want a Lost event and one more", events)
	}
	if got := nodesOf(t, read(t, r, events[0].ID), 9); got != "3 4 5" {
		t.Errorf("after the Lost event = %q", got)
	}
}

func TestNextEventClosesMore(t *testing.T) {
	r := ring(7, "1")
	c := read(t, r, "")
	_, more := c.Next(9)
	select {
	case <-more:
		t.Fatal("more without a new event")
	default:
	}
	r.Add(event.Event{Kind: event.NodeLeft})
	<-more
	r.Add(event.Event{Kind: event.NodeLeft})
	if _, more = c.Next(1); more == nil {
		t.Fatal("no channel")
	}
	<-more // the second event is available already
}

func TestAddStampsTheEvent(t *testing.T) {
	r := event.NewRing(event.Options{Node: "a", RunID: 7, Stamp: func() event.Stamp { return event.Stamp{Boot: 4, Epoch: 17, Term: 3} }})
	r.Add(event.Event{Kind: event.MapProposed, Epoch: 18, Change: &event.Change{Base: 17, Moved: 2, Moves: []event.ShardMoves{{From: "b", To: "a", Shards: 2}}}})
	events, _ := read(t, r, "").Next(1)
	b, err := json.Marshal(events[0])
	if err != nil {
		t.Fatal(err)
	}
	want := `,"kind":"map-proposed","at":"a","boot":4,"epoch":18,"term":3,"change":{"base":17,"moved":2,"moves":[{"from":"b","to":"a","shards":2}],"gained":0,"released":0}}`
	if !strings.HasPrefix(string(b), `{"id":"0000000000000007-1","seq":1,"time":"`) || !strings.HasSuffix(string(b), want) {
		t.Errorf("%s, want …%s", b, want)
	}
	r.Add(event.Event{Kind: event.LeaderLost, Term: 2})
	if later, _ := read(t, r, events[0].ID).Next(1); later[0].Epoch != 17 || later[0].Term != 2 {
		t.Errorf("%+v, want epoch 17 and term 2", later[0])
	}
	var decoded event.Event
	if err := json.Unmarshal(b, &decoded); err != nil || decoded.Kind != event.MapProposed || time.Since(decoded.Time) > time.Hour {
		t.Errorf("decoded: %+v, %v", decoded, err)
	}
}

func TestKindsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range event.Kinds() {
		b, _ := k.MarshalText()
		var decoded event.Kind
		if err := decoded.UnmarshalText(b); err != nil || decoded != k || strings.Contains(k.String(), "(") || seen[k.String()] {
			t.Errorf("%d: %q is decoded as %d, %v", k, b, decoded, err)
		}
		seen[k.String()] = true
	}
	var foreign event.Kind
	if err := foreign.UnmarshalText([]byte("unknown-kind")); err != nil || foreign != 0 {
		t.Errorf("unknown kind = %v, %v, want zero", foreign, err)
	}
	if got := event.Kind(200).String(); got != "Kind(200)" {
		t.Errorf("String = %q", got)
	}
}

// Only readers that ask receive lists of shards. The lists of a ring have a memory limit: the oldest ones are dropped,
// and their events stay.
func TestShardListsHaveABound(t *testing.T) {
	r := event.NewRing(event.Options{Node: "a", RunID: 7, Capacity: 4, ShardMemory: 1000})
	add := func(node string, shards int) {
		var lists []event.MovedShards
		if shards > 0 {
			lists = []event.MovedShards{{To: node, Shards: make([]uint16, shards)}}
		}
		r.Add(event.Event{Kind: event.ShardsMoved, Node: node, Shards: lists})
	}
	shown := func() string {
		c := read(t, r, "")
		c.IncludeShards()
		events, _ := c.Next(9)
		var b strings.Builder
		for _, e := range events {
			b.WriteString(" " + e.Node)
			for _, l := range e.Shards {
				b.WriteString(":" + strconv.Itoa(len(l.Shards)))
			}
			if e.ShardsOmitted {
				b.WriteString("-")
			}
		}
		return strings.TrimSpace(b.String())
	}
	for _, x := range []struct {
		node   string
		shards int
		want   string
	}{
		{"1", 200, "1:200"}, // 496 bytes
		{"2", 0, "1:200 2"},
		{"3", 100, "1:200 2 3:100"},    // 792
		{"4", 100, "1- 2 3:100 4:100"}, // 592
		{"5", 200, "2 3- 4:100 5:200"}, // 792
		{"6", 600, "3- 4- 5- 6-"},      // alone more than the limit
		{"7", 452, "4- 5- 6- 7:452"},   // exactly the limit
		{"8", 0, "5- 6- 7:452 8"},
		{"9", 0, "6- 7:452 8 9"},
		{"10", 0, "7:452 8 9 10"},
		{"11", 452, "8 9 10 11:452"}, // the list of 7 has left the ring with its event
		{"12", 1, "9 10 11- 12:1"},
		{"13", 0, "10 11- 12:1 13"},
	} {
		add(x.node, x.shards)
		if got := shown(); got != x.want {
			t.Errorf("after %s with %d shards: %q, want %q", x.node, x.shards, got, x.want)
		}
	}
	events, _ := read(t, r, "").Next(9)
	for _, e := range events {
		if e.Shards != nil || e.ShardsOmitted {
			t.Errorf("a reader that did not ask receives %+v", e)
		}
	}
}

func TestRingIsSafeForConcurrentUse(t *testing.T) {
	r := event.NewRing(event.Options{RunID: 7, Capacity: 64})
	var wg sync.WaitGroup
	for range 4 {
		c := read(t, r, "")
		wg.Go(func() {
			seen := uint64(0)
			for seen < 800 {
				events, more := c.Next(10)
				for _, e := range events {
					if e.Kind != event.Lost && e.Seq != seen+1 {
						t.Errorf("seq %d after %d", e.Seq, seen)
					}
					seen = e.Seq
				}
				if seen < 800 {
					<-more
				}
			}
		})
	}
	for range 4 {
		wg.Go(func() {
			for range 200 {
				r.Add(event.Event{Kind: event.ActionRequested})
			}
		})
	}
	wg.Wait()
	var none *event.Ring
	none.Add(event.Event{})
}
