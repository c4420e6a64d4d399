package event_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/event"
)

// told lists what a reader is given, as kind:seq, and :missed for what is lost.
func told(t *testing.T, c *event.Cursor, limit int) string {
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
	r := event.NewRing(event.Options{Node: "a", Run: run, Kept: 3})
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

func TestReaderGetsEachEventOnceAndLearnsWhatItMissed(t *testing.T) {
	r := ring(7, "1", "2")
	c := read(t, r, "")
	if got := told(t, c, 9); got != "1 2" {
		t.Errorf("first = %q, want all that are kept", got)
	}
	if got := told(t, c, 9); got != "" {
		t.Errorf("again = %q, want nothing", got)
	}
	for _, n := range []string{"3", "4", "5", "6", "7"} {
		r.Add(event.Event{Kind: event.NodeJoined, Node: n})
	}
	if got := told(t, c, 2); got != "lost:overrun!! 5 6" {
		t.Errorf("after five more in a ring of three = %q", got)
	}
	if got := told(t, c, 2); got != "7" {
		t.Errorf("the rest = %q", got)
	}
	if got := told(t, read(t, r, ""), 9); got != "5 6 7" {
		t.Errorf("a new reader = %q: it has missed nothing", got)
	}
}

// The number alone would name another event after a restart: the reader would miss what
// has come before it, and never know.
func TestIDOfAnotherProcessNamesNothing(t *testing.T) {
	before := ring(7, "1", "2")
	c := read(t, before, "")
	told(t, c, 9)
	id := c.After()
	if got := told(t, read(t, before, id), 9); got != "" {
		t.Errorf("the same process = %q, want nothing more", got)
	}
	after := ring(8, "3", "4", "5")
	if got := told(t, read(t, after, id), 9); got != "lost:restarted 3 4 5" {
		t.Errorf("another process = %q", got)
	}
	if got := told(t, read(t, ring(7), id), 9); got != "lost:restarted" {
		t.Errorf("a number that was not told yet = %q", got)
	}
	for _, bad := range []string{"x", "7-1", "0000000000000007", "0000000000000007-", "-1", "000000000000000g-1", "0000000000000007-99999999999999999999"} {
		if _, err := before.Read(bad); err == nil {
			t.Errorf("Read(%q) took it", bad)
		}
	}
}

func TestLostEventCanBeReadOnAfter(t *testing.T) {
	r := ring(7, "1", "2", "3", "4", "5")
	c := read(t, r, "0000000000000007-1")
	events, _ := c.Next(1)
	if len(events) != 2 || events[0].Kind != event.Lost || events[0].Missed != 1 {
		t.Fatalf("Next = %v, want what is lost, and one", events)
	}
	if got := told(t, read(t, r, events[0].ID), 9); got != "3 4 5" {
		t.Errorf("after the lost one = %q", got)
	}
}

func TestMoreIsClosedByTheNextEvent(t *testing.T) {
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
	<-more // the second is there already
}

func TestEventIsStamped(t *testing.T) {
	r := event.NewRing(event.Options{Node: "a", Run: 7, Stamp: func() event.Stamp { return event.Stamp{Boot: 4, Epoch: 17, Term: 3} }})
	r.Add(event.Event{Kind: event.MapProposed, Epoch: 18, Change: &event.Change{Base: 17, Moved: 2, Moves: []event.Way{{From: "b", To: "a", Shards: 2}}}})
	events, _ := read(t, r, "").Next(1)
	b, err := json.Marshal(events[0])
	if err != nil {
		t.Fatal(err)
	}
	want := `,"kind":"map-proposed","at":"a","boot":4,"epoch":18,"term":3,"change":{"base":17,"moved":2,"moves":[{"from":"b","to":"a","shards":2}],"gained":0,"given":0}}`
	if !strings.HasPrefix(string(b), `{"id":"0000000000000007-1","seq":1,"time":"`) || !strings.HasSuffix(string(b), want) {
		t.Errorf("%s, want …%s", b, want)
	}
	r.Add(event.Event{Kind: event.LeaderLost, Term: 2})
	if later, _ := read(t, r, events[0].ID).Next(1); later[0].Epoch != 17 || later[0].Term != 2 {
		t.Errorf("%+v, want it in epoch 17, of term 2", later[0])
	}
	var back event.Event
	if err := json.Unmarshal(b, &back); err != nil || back.Kind != event.MapProposed || time.Since(back.Time) > time.Hour {
		t.Errorf("read back: %+v, %v", back, err)
	}
}

func TestKindsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range event.Kinds() {
		b, _ := k.MarshalText()
		var back event.Kind
		if err := back.UnmarshalText(b); err != nil || back != k || strings.Contains(k.String(), "(") || seen[k.String()] {
			t.Errorf("%d: %q reads back as %d, %v", k, b, back, err)
		}
		seen[k.String()] = true
	}
	var foreign event.Kind
	if err := foreign.UnmarshalText([]byte("of-tomorrow")); err != nil || foreign != 0 {
		t.Errorf("a kind of tomorrow = %v, %v: want zero", foreign, err)
	}
	if got := event.Kind(200).String(); got != "Kind(200)" {
		t.Errorf("String = %q", got)
	}
}

func TestRingIsForManyGoroutines(t *testing.T) {
	r := event.NewRing(event.Options{Run: 7, Kept: 64})
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
				r.Add(event.Event{Kind: event.Acted})
			}
		})
	}
	wg.Wait()
	var none *event.Ring
	none.Add(event.Event{})
}
