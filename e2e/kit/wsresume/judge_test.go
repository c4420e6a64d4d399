//go:build linux

package wsresume_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/wsresume"
)

// histories are those of two clients. The first one's leg is handed over, breaks, and is
// handed over again; a message is lost in each direction where it broke. The other one's
// stays where it is.
type histories struct {
	clients []wsresume.Client
	legs    []*wsresume.Leg
}

func (h *histories) client() *wsresume.Client { return &h.clients[0] }

func right() *histories {
	return &histories{
		[]wsresume.Client{
			{Name: "0", Sent: 7, Got: []wsresume.Number{{N: 1}, {N: 2}, {Leg: 1, N: 3}, {Leg: 2, N: 103}, {Leg: 2, N: 104}, {Leg: 3, N: 105}}},
			{Name: "1", Sent: 1, Got: []wsresume.Number{{N: 1}}},
		},
		[]*wsresume.Leg{
			// In no order, as apps write them.
			{Client: "0", Socket: "x", Leg: 3, Begin: 40, End: 50, How: "closed", Last: 105, Got: []uint64{7}},
			{Client: "0", Socket: "x", Leg: 0, Begin: 10, End: 20, How: "moved", Last: 2, Got: []uint64{1, 2}},
			{Client: "0", Socket: "x", Leg: 1, Begin: 20, End: 30, How: "broken", Last: 4, Got: []uint64{3}},
			{Client: "0", Socket: "x", Leg: 2, Begin: 31, End: 40, How: "moved", Last: 104, Gap: true, Got: []uint64{5, 6}},
			{Client: "1", Socket: "y", Leg: 0, Begin: 10, End: 50, How: "closed", Last: 1, Got: []uint64{1}},
		},
	}
}

// The judge accepts what may be, and refuses each history in which one thing is wrong.
func TestJudgeRefusesWhatMustNotBe(t *testing.T) {
	last, first, broke, resumed := 0, 1, 2, 3 // of right's legs
	for name, tc := range map[string]struct {
		plant func(h *histories)
		want  string // nothing: it is right
	}{
		"right":                   {func(*histories) {}, ""},
		"the app died":            {func(h *histories) { h.legs[broke].How, h.legs[broke].Last = "", 0 }, ""},
		"lost, up, planned":       {func(h *histories) { h.legs[first].Got = []uint64{1} }, "got 3 after 1: lost without a gap"},
		"lost, up, within a leg":  {func(h *histories) { h.legs[resumed].Got = []uint64{4, 6} }, "got 6 after 4: lost without a gap"},
		"lost, up, at the end":    {func(h *histories) { h.legs[last].Got = nil }, "the app got 6 as the last, the client sent 7"},
		"repeated, up, planned":   {func(h *histories) { h.legs[broke].Got = []uint64{2, 3} }, "got 2 after 2: repeated"},
		"repeated, up, crash":     {func(h *histories) { h.legs[resumed].Got = []uint64{3, 4, 5, 6} }, "got 3 after 3: repeated"},
		"reordered, up":           {func(h *histories) { h.legs[first].Got = []uint64{2, 1} }, "got 1 after 2: repeated or out of order"},
		"lost, down, planned":     {func(h *histories) { h.client().Got[1].N = 1; h.client().Got = h.client().Got[1:] }, "got 3 of leg 1 after 1 of leg 0: lost without a gap"},
		"lost, down, in a leg":    {func(h *histories) { h.client().Got[4].N = 107; h.client().Got[5].N = 108; h.legs[last].Last = 108 }, "lost without a gap"},
		"lost, down, at the end":  {func(h *histories) { h.client().Got = h.client().Got[:5] }, "it got 104 as the last, the app sent 105"},
		"repeated, down, planned": {func(h *histories) { h.client().Got[2].N = 2 }, "got 2 of leg 1 after 2 of leg 0: repeated"},
		"repeated, down, crash":   {func(h *histories) { h.client().Got[3].N = 3 }, "got 3 of leg 2 after 3 of leg 1: repeated"},
		"reordered, down": {func(h *histories) {
			got := h.client().Got
			got[0], got[1] = got[1], got[0]
		}, "got 1 of leg 0 after 2 of leg 0: repeated or out of order"},
		"an old leg speaks":    {func(h *histories) { h.client().Got[4].Leg = 1 }, "got 104 of leg 1 after 103 of leg 2"},
		"no Gap":               {func(h *histories) { h.legs[resumed].Gap = false }, "leg 2 is not told of the gap after leg 1"},
		"no Gap, the app died": {func(h *histories) { h.legs[resumed].Gap, h.legs[broke].How = false, "" }, "leg 2 is not told of the gap"},
		"closed":               {func(h *histories) { h.client().Err = "status = StatusServiceRestart" }, "the client's socket was closed: status"},
		"resumed after Close":  {func(h *histories) { h.legs[first].How = "closed" }, "leg 1 follows a Close"},
		"two legs":             {func(h *histories) { h.legs[first].End = 21 }, "leg 1 begins while leg 0 is there"},
		"two legs of a number": {func(h *histories) { h.legs[resumed].Leg = 1 }, "two legs are the 1."},
		"another id":           {func(h *histories) { h.legs[broke].Socket = "z" }, "leg 1 has another id"},
		"one id for two":       {func(h *histories) { h.legs[4].Socket = "x" }, "it has the id of 0"},
		"begun by a later leg": {func(h *histories) { h.legs[first].Leg, h.legs = 1, h.legs[:2] }, "it begins with leg 1"},
		"nobody saw it":        {func(h *histories) { h.legs = h.legs[4:] }, "no app has seen it"},
	} {
		t.Run(name, func(t *testing.T) {
			h := right()
			tc.plant(h)
			wrong := strings.Join(wsresume.Judge(h.clients, h.legs), "\n")
			if tc.want == "" && wrong != "" || !strings.Contains(wrong, tc.want) {
				t.Errorf("the judge says:\n%s\nwant %q", wrong, tc.want)
			}
		})
	}
}

func TestUnplannedLegsAreCountedWithinAMinute(t *testing.T) {
	leg := func(client string, second int64, gap bool) *wsresume.Leg {
		return &wsresume.Leg{Client: client, Begin: second * int64(time.Second), Gap: gap}
	}
	for _, tt := range []struct {
		legs []*wsresume.Leg
		want int
	}{
		{nil, 0},
		{[]*wsresume.Leg{leg("0", 0, false), leg("0", 1, false)}, 0},
		{[]*wsresume.Leg{leg("0", 5, true), leg("1", 6, true), leg("0", 0, false)}, 1},
		{[]*wsresume.Leg{leg("0", 60, true), leg("0", 0, true), leg("0", 59, true)}, 2},
		{[]*wsresume.Leg{leg("0", 100, true), leg("0", 0, true), leg("0", 59, true), leg("0", 118, true)}, 3},
	} {
		if got := wsresume.Unplanned(tt.legs); got != tt.want {
			t.Errorf("Unplanned(%+v) = %d, want %d", tt.legs, got, tt.want)
		}
	}
}

// A log that is read while its app lives may end within a line: what is whole counts.
func TestALogIsReadWhileItIsWritten(t *testing.T) {
	const whole = `{"client":"0","socket":"x","leg":0,"what":"begin","at":1}` + "\n" +
		`{"client":"0","socket":"x","leg":0,"what":"got","n":7,"at":2}` + "\n"
	name := filepath.Join(t.TempDir(), "log-1")
	for end := range len(whole) + 1 {
		if err := os.WriteFile(name, []byte(whole[:end]), 0o600); err != nil {
			t.Fatal(err)
		}
		legs, err := wsresume.Read(filepath.Dir(name))
		got := len(legs)
		for _, l := range legs {
			got += len(l.Got)
		}
		if want := strings.Count(whole[:end], "\n"); err != nil || got != want {
			t.Fatalf("%d bytes hold %d notes, %v; want %d", end, got, err, want)
		}
	}
	if err := os.WriteFile(name, []byte("no note\n"+whole), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := wsresume.Read(filepath.Dir(name)); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("a line that is no note: %v", err)
	}
}
