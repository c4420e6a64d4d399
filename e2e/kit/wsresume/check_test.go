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

// histories are the records of two clients. The connection of the first client is handed
// over, breaks, and is handed over again. One message is lost in each direction at the
// break. The second client has one connection.
type histories struct {
	clients []wsresume.Client
	conns   []*wsresume.Conn
}

func (h *histories) client() *wsresume.Client { return &h.clients[0] }

func valid() *histories {
	return &histories{
		[]wsresume.Client{
			{Name: "0", Sent: 7, Received: []wsresume.AppMessage{{Number: 1}, {Number: 2}, {Conn: 1, Number: 3}, {Conn: 2, Number: 103}, {Conn: 2, Number: 104}, {Conn: 3, Number: 105}}},
			{Name: "1", Sent: 1, Received: []wsresume.AppMessage{{Number: 1}}},
		},
		[]*wsresume.Conn{
			// The order is random, since several apps write them.
			{Client: "0", Session: "x", Index: 3, Begin: 40, End: 50, EndReason: "closed", LastSent: 105, Received: []uint64{7}},
			{Client: "0", Session: "x", Index: 0, Begin: 10, End: 20, EndReason: "moved", LastSent: 2, Received: []uint64{1, 2}},
			{Client: "0", Session: "x", Index: 1, Begin: 20, End: 30, EndReason: "broken", LastSent: 4, Received: []uint64{3}},
			{Client: "0", Session: "x", Index: 2, Begin: 31, End: 40, EndReason: "moved", LastSent: 104, Gap: true, Received: []uint64{5, 6}},
			{Client: "1", Session: "y", Index: 0, Begin: 10, End: 50, EndReason: "closed", LastSent: 1, Received: []uint64{1}},
		},
	}
}

// Check accepts the valid history, and rejects each history with one planted error.
func TestCheckRejectsInvalidHistories(t *testing.T) {
	last, first, broke, resumed := 0, 1, 2, 3 // indexes of valid().conns
	for name, tc := range map[string]struct {
		plant func(observed *histories)
		want  string // empty means that the history is valid
	}{
		"valid":                         {func(*histories) {}, ""},
		"the app died":                  {func(observed *histories) { observed.conns[broke].EndReason, observed.conns[broke].LastSent = "", 0 }, ""},
		"lost, up, planned":             {func(observed *histories) { observed.conns[first].Received = []uint64{1} }, "received 3 after 1: lost without a gap"},
		"lost, up, within a connection": {func(observed *histories) { observed.conns[resumed].Received = []uint64{4, 6} }, "received 6 after 4: lost without a gap"},
		"lost, up, at the end":          {func(observed *histories) { observed.conns[last].Received = nil }, "the app received 6 as the last, the client sent 7"},
		"repeated, up, planned":         {func(observed *histories) { observed.conns[broke].Received = []uint64{2, 3} }, "received 2 after 2: repeated"},
		"repeated, up, crash":           {func(observed *histories) { observed.conns[resumed].Received = []uint64{3, 4, 5, 6} }, "received 3 after 3: repeated"},
		"reordered, up":                 {func(observed *histories) { observed.conns[first].Received = []uint64{2, 1} }, "received 1 after 2: repeated or out of order"},
		"lost, down, planned": {func(observed *histories) {
			observed.client().Received[1].Number = 1
			observed.client().Received = observed.client().Received[1:]
		}, "received 3 from connection 1 after 1 from connection 0: lost without a gap"},
		"lost, down, within a connection": {func(observed *histories) {
			observed.client().Received[4].Number = 107
			observed.client().Received[5].Number = 108
			observed.conns[last].LastSent = 108
		}, "lost without a gap"},
		"lost, down, at the end":  {func(observed *histories) { observed.client().Received = observed.client().Received[:5] }, "it received 104 as the last, the app sent 105"},
		"repeated, down, planned": {func(observed *histories) { observed.client().Received[2].Number = 2 }, "received 2 from connection 1 after 2 from connection 0: repeated"},
		"repeated, down, crash":   {func(observed *histories) { observed.client().Received[3].Number = 3 }, "received 3 from connection 2 after 3 from connection 1: repeated"},
		"reordered, down": {func(observed *histories) {
			got := observed.client().Received
			got[0], got[1] = got[1], got[0]
		}, "received 1 from connection 0 after 2 from connection 0: repeated or out of order"},
		"message of an old connection":    {func(observed *histories) { observed.client().Received[4].Conn = 1 }, "received 104 from connection 1 after 103 from connection 2"},
		"no Gap":                          {func(observed *histories) { observed.conns[resumed].Gap = false }, "connection 2 was not told of the gap after connection 1"},
		"no Gap, the app died":            {func(observed *histories) { observed.conns[resumed].Gap, observed.conns[broke].EndReason = false, "" }, "connection 2 was not told of the gap"},
		"closed":                          {func(observed *histories) { observed.client().Err = "status = StatusServiceRestart" }, "the client's connection was closed: status"},
		"resumed after Close":             {func(observed *histories) { observed.conns[first].EndReason = "closed" }, "connection 1 follows a Close"},
		"two connections":                 {func(observed *histories) { observed.conns[first].End = 21 }, "connection 1 begins before the end of connection 0"},
		"two connections with one number": {func(observed *histories) { observed.conns[resumed].Index = 1 }, "two connections have the number 1"},
		"another id":                      {func(observed *histories) { observed.conns[broke].Session = "z" }, "connection 1 has another session ID"},
		"one id for two":                  {func(observed *histories) { observed.conns[4].Session = "x" }, "it has the session ID of 0"},
		"first connection missing":        {func(observed *histories) { observed.conns[first].Index, observed.conns = 1, observed.conns[:2] }, "it begins with connection 1"},
		"no record":                       {func(observed *histories) { observed.conns = observed.conns[4:] }, "no app has a record of it"},
	} {
		t.Run(name, func(t *testing.T) {
			observed := valid()
			tc.plant(observed)
			wrong := strings.Join(wsresume.Check(observed.clients, observed.conns), "\n")
			if tc.want == "" && wrong != "" || !strings.Contains(wrong, tc.want) {
				t.Errorf("Check returned:\n%s\nwant %q", wrong, tc.want)
			}
		})
	}
}

func TestMaxUnplannedCountsConnectionsWithinAMinute(t *testing.T) {
	conn := func(client string, second int64, gap bool) *wsresume.Conn {
		return &wsresume.Conn{Client: client, Begin: second * int64(time.Second), Gap: gap}
	}
	for _, tt := range []struct {
		conns []*wsresume.Conn
		want  int
	}{
		{nil, 0},
		{[]*wsresume.Conn{conn("0", 0, false), conn("0", 1, false)}, 0},
		{[]*wsresume.Conn{conn("0", 5, true), conn("1", 6, true), conn("0", 0, false)}, 1},
		{[]*wsresume.Conn{conn("0", 60, true), conn("0", 0, true), conn("0", 59, true)}, 2},
		{[]*wsresume.Conn{conn("0", 100, true), conn("0", 0, true), conn("0", 59, true), conn("0", 118, true)}, 3},
	} {
		if got := wsresume.MaxUnplanned(tt.conns); got != tt.want {
			t.Errorf("Unplanned(%+v) = %d, want %d", tt.conns, got, tt.want)
		}
	}
}

// The log of a running app may end within a line. Read returns the complete lines.
func TestReadIgnoresIncompleteLastLine(t *testing.T) {
	const whole = `{"client":"0","session":"x","conn":0,"what":"begin","at":1}` + "\n" +
		`{"client":"0","session":"x","conn":0,"what":"got","n":7,"at":2}` + "\n"
	name := filepath.Join(t.TempDir(), "log-1")
	for end := range len(whole) + 1 {
		if err := os.WriteFile(name, []byte(whole[:end]), 0o600); err != nil {
			t.Fatal(err)
		}
		conns, err := wsresume.Read(filepath.Dir(name))
		got := len(conns)
		for _, l := range conns {
			got += len(l.Received)
		}
		if want := strings.Count(whole[:end], "\n"); err != nil || got != want {
			t.Fatalf("%d bytes contain %d entries, %v; want %d", end, got, err, want)
		}
	}
	if err := os.WriteFile(name, []byte("no JSON\n"+whole), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := wsresume.Read(filepath.Dir(name)); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("invalid line: %v", err)
	}
}
