package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"shardway/config"
)

func TestLogIsJSONUnlessAPersonReads(t *testing.T) {
	var b writerFunc
	lines := 0
	c := config.Default()
	c.LogLevel = "warn"
	b = func(p []byte) (int, error) {
		lines++
		if p[0] != '{' {
			t.Errorf("log line %q", p)
		}
		return len(p), nil
	}
	setLogLevel(&c)
	defer zerolog.SetGlobalLevel(zerolog.TraceLevel) // the default of the package
	log := logger(&c, b)
	log.Info().Msg("left out")
	log.Warn().Msg("written")
	if lines != 1 {
		t.Errorf("%d lines, want 1", lines)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

var _ io.Writer = writerFunc(nil)

func TestLongListsOfShardsAreCut(t *testing.T) {
	var odd []uint32
	for s := range uint32(500) {
		odd = append(odd, 2*s)
	}
	if got := formatRanges(odd); len(got) > maxRangesBytes+10 || got[:6] != "0,2,4," || got[len(got)-4:] != ",..." {
		t.Errorf("ranges of 500 = %q", got)
	}
	if got := formatRanges([]uint32{1, 2, 3, 5, 7, 8}); got != "1-3,5,7-8" {
		t.Errorf("ranges = %q", got)
	}
}

// The prefix of the demo is added once to each line. Once, the demo quoted the last output of a node
// and added it twice.
func TestLinesAreMarkedAsOursOnce(t *testing.T) {
	var b strings.Builder
	s := &session{err: &b}
	s.printError("demo: n1 ended before it served; its log ends with\nshardway: disk: not usable\nshardway: \x1b[2J")
	if want := "shardway: demo: n1 ended before it served; its log ends with\nshardway: disk: not usable\nshardway: "; !strings.HasPrefix(b.String(), want) || strings.Contains(b.String(), "shardway: shardway") {
		t.Errorf("wrote %q, want %q", b.String(), want)
	}
}
