//go:build linux

package cluster

import (
	"os"
	"path/filepath"
	"testing"
)

// The test appends to a file between two reads, also in the middle of a line.
func TestRecordsAreReadOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	r := newRecords(path)
	for i, c := range []struct {
		written string
		runs    int
		end     int64 // of the first run
	}{
		{"", 0, 0},
		{`{"seq":0,"id":"x","start":5}` + "\n" + `{"seq":1,"id":"y","sta`, 1, 0},
		{`rt":6}` + "\n", 2, 0},
		{`{"seq":0,"id":"x","start":5,"end":9}` + "\n" + `{"seq":2`, 2, 9},
		{"", 2, 9},
	} {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(c.written); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := r.read(); err != nil {
			t.Fatal(err)
		}
		if len(r.runs) != c.runs || c.runs > 0 && r.runs[0].End != c.end {
			t.Errorf("after part %d: %+v, want %d runs, the first with end %d", i, r.runs, c.runs, c.end)
		}
	}
}
