package version

import (
	"runtime/debug"
	"strings"
	"testing"
)

// The version said nothing of the commit, so nobody could tell two builds apart.
func TestBuildNamesItsCommit(t *testing.T) {
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"},
	}}
	for _, tt := range []struct {
		info         *debug.BuildInfo
		commit, date string
		want         string
	}{
		{info, "", "", ", commit abc with changes of 2026-01-02T03:04:05Z, go"},
		{info, "def", "2026-05-05T00:00:00Z", ", commit def of 2026-05-05T00:00:00Z, go"},
		{nil, "def", "", ", commit def, go"},
		{nil, "", "", Version + ", go"},
	} {
		if got := read(tt.info, tt.commit, tt.date).String(); !strings.Contains(got, tt.want) || !strings.HasPrefix(got, "shardway "+Version) {
			t.Errorf("read(%v, %q, %q) = %s, want %q in it", tt.info, tt.commit, tt.date, got, tt.want)
		}
	}
}
