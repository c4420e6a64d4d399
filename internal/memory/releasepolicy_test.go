package memory_test

import (
	"testing"
	"time"

	"shardway/internal/memory"
)

const mib = 1 << 20

// played is a process whose ReleasePolicy is asked every two seconds.
type played struct {
	t         *testing.T
	k         *memory.ReleasePolicy
	now, used time.Duration
}

func play(t *testing.T) *played {
	t.Helper()
	return &played{t: t, k: memory.NewReleasePolicy(0, 0)}
}

// look asks once, when the process was busy for share percent of a processor.
func (p *played) look(share int, u memory.Usage) bool {
	p.now += 2 * time.Second
	p.used += 2 * time.Second * time.Duration(share) / 100
	return p.k.ShouldRelease(p.now, p.used, u)
}

// looks asks until memory is to be given back, most times at most, and returns how often.
func (p *played) looks(most, share int, u memory.Usage) int {
	for i := range most {
		if p.look(share, u) {
			return i + 1
		}
	}
	return 0
}

func use(live, held uint64) memory.Usage { return memory.Usage{Live: live * mib, Held: held * mib} }

func TestMemoryIsReleasedWhenIdle(t *testing.T) {
	p := play(t)
	if n := p.looks(100, 11, use(50, 100)); n != 0 {
		t.Errorf("given back while the process is busy, with look %d", n)
	}
	if n := p.looks(100, 10, use(50, 100)); n != 2 {
		t.Errorf("given back with look %d at rest, want the second", n)
	}
}

func TestRestIsWithoutAPause(t *testing.T) {
	p := play(t)
	for i := range 50 {
		if share := i % 2 * 50; p.look(share, use(50, 100)) {
			t.Fatal("given back between two bursts")
		}
	}
}

func TestLittleIsNotWorthIt(t *testing.T) {
	for _, u := range []memory.Usage{use(1, 8), use(100, 124), use(50, 50), use(50, 40), {}} {
		if n := play(t).looks(100, 0, u); n != 0 {
			t.Errorf("%v is given back with look %d", u, n)
		}
	}
	for _, u := range []memory.Usage{use(1, 9), use(100, 125)} {
		if n := play(t).looks(100, 0, u); n != 2 {
			t.Errorf("%v is given back with look %d, want the second", u, n)
		}
	}
}

// What is left over once memory has been given back is in pieces, and would be for ever.
func TestWhatCannotBeGivenBackIsNotTriedAgain(t *testing.T) {
	p := play(t)
	p.looks(100, 0, use(40, 100))
	p.k.RecordRelease(p.now, use(40, 70))
	if n := p.looks(1000, 0, use(40, 79)); n != 0 {
		t.Errorf("given back again with look %d", n)
	}
	if n := p.looks(1000, 0, use(40, 80)); n != 1 {
		t.Errorf("given back again with look %d, want the first: there is more", n)
	}
}

// But what was in pieces may be free some time, or was a burst's.
func TestWhatCouldNotBeGivenBackIsForgotten(t *testing.T) {
	p := play(t)
	p.looks(100, 0, use(40, 600))
	p.k.RecordRelease(p.now, use(40, 540))
	p.looks(100, 50, use(40, 60)) // busy, and the runtime has got it back
	if n := p.looks(100, 0, use(40, 540)); n == 0 {
		t.Error("never given back again")
	}
}

func TestGivingBackPauses(t *testing.T) {
	p := play(t)
	p.looks(100, 0, use(50, 100))
	p.k.RecordRelease(p.now, use(50, 55))
	if n := p.looks(100, 0, use(50, 100)); n != 5 {
		t.Errorf("given back again with look %d, want the fifth, 10 s later", n)
	}
}

// A look that comes late is followed by one that is early, and says little.
func TestEarlyCheckIsIgnored(t *testing.T) {
	k := memory.NewReleasePolicy(0, 0)
	for _, at := range []time.Duration{0, 10 * time.Millisecond, 20 * time.Millisecond} {
		if k.ShouldRelease(at, 0, use(50, 100)) {
			t.Fatal("given back at once")
		}
	}
}
