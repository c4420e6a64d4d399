package node

import (
	"strings"
	"testing"

	"shardway/ack"
)

func TestDataDirectoryOfDevelopmentVersionIsRefusedWithRemedy(t *testing.T) {
	for _, c := range []struct {
		level ack.FormatVersion
		want  string
	}{
		{1, "created by a development version: format version 1, and this program supports format versions 2 to 4: start with an empty --data directory"},
		{9, "format version 9, and this program supports format versions 2 to 4: run the version of the other nodes"},
	} {
		if got := unsupportedFormatError(c.level.CheckSupported()).Error(); !strings.Contains(got, c.want) {
			t.Errorf("format version %d: %s, want %s", c.level, got, c.want)
		}
	}
}
