package memory_test

import (
	"testing"
	"time"

	"shardway/internal/memory"
)

const mib = 1 << 20

// simulation is a process whose ReleasePolicy is asked every two seconds.
type simulation struct {
	policy       *memory.ReleasePolicy
	now, cpuTime time.Duration
}

func newSimulation() *simulation {
	return &simulation{policy: memory.NewReleasePolicy(0, 0)}
}

// check asks the policy after two more seconds with a load, in percent of one processor.
func (s *simulation) check(load int, usage memory.Usage) (release bool) {
	s.now += 2 * time.Second
	s.cpuTime += 2 * time.Second * time.Duration(load) / 100
	return s.policy.ShouldRelease(s.now, s.cpuTime, usage)
}

// checksUntilRelease returns the number of the check that requests a release. 0 means that none of the
// first maxChecks checks does.
func (s *simulation) checksUntilRelease(maxChecks, load int, usage memory.Usage) int {
	for n := 1; n <= maxChecks; n++ {
		if s.check(load, usage) {
			return n
		}
	}
	return 0
}

// usage returns a memory usage, with sizes in MiB.
func usage(live, held uint64) memory.Usage {
	return memory.Usage{Live: live * mib, HeapReserved: held * mib}
}

func TestMemoryIsReleasedWhenIdle(t *testing.T) {
	s := newSimulation()
	if n := s.checksUntilRelease(100, 11, usage(50, 100)); n != 0 {
		t.Errorf("check %d released memory of a busy process", n)
	}
	if n := s.checksUntilRelease(100, 10, usage(50, 100)); n != 2 {
		t.Errorf("check %d released memory of an idle process, want the second check", n)
	}
}

func TestBurstsPreventRelease(t *testing.T) {
	s := newSimulation()
	for i := range 50 {
		load := 50 * (i % 2)
		if s.check(load, usage(50, 100)) {
			t.Fatal("memory was released between two bursts")
		}
	}
}

func TestLittleMemoryIsNotReleased(t *testing.T) {
	for _, u := range []memory.Usage{usage(1, 8), usage(100, 124), usage(50, 50), usage(50, 40), {}} {
		if n := newSimulation().checksUntilRelease(100, 0, u); n != 0 {
			t.Errorf("%v: check %d released memory", u, n)
		}
	}
	for _, u := range []memory.Usage{usage(1, 9), usage(100, 125)} {
		if n := newSimulation().checksUntilRelease(100, 0, u); n != 2 {
			t.Errorf("%v: check %d released memory, want the second check", u, n)
		}
	}
}

// After a release, the remaining unused memory is fragmented, so another release would not return it.
func TestFragmentedMemoryIsNotReleasedAgain(t *testing.T) {
	s := newSimulation()
	s.checksUntilRelease(100, 0, usage(40, 100))
	s.policy.RecordRelease(s.now, usage(40, 70))
	if n := s.checksUntilRelease(1000, 0, usage(40, 79)); n != 0 {
		t.Errorf("check %d released fragmented memory", n)
	}
	if n := s.checksUntilRelease(1000, 0, usage(40, 80)); n != 1 {
		t.Errorf("check %d released memory, want the first check: there is more unused memory", n)
	}
}

// Fragmented memory that the runtime has returned in the meantime no longer counts as fragmented.
func TestFragmentationIsForgottenWhenMemoryShrinks(t *testing.T) {
	s := newSimulation()
	s.checksUntilRelease(100, 0, usage(40, 600))
	s.policy.RecordRelease(s.now, usage(40, 540))
	s.checksUntilRelease(100, 50, usage(40, 60)) // busy, and the runtime has returned the memory
	if n := s.checksUntilRelease(100, 0, usage(40, 540)); n == 0 {
		t.Error("no check released memory again")
	}
}

func TestReleasesHaveAMinimumInterval(t *testing.T) {
	s := newSimulation()
	s.checksUntilRelease(100, 0, usage(50, 100))
	s.policy.RecordRelease(s.now, usage(50, 55))
	if n := s.checksUntilRelease(100, 0, usage(50, 100)); n != 5 {
		t.Errorf("check %d released memory again, want the fifth check, 10 s later", n)
	}
}

// A check soon after a late one covers too short a time to show whether the process is idle.
func TestEarlyCheckIsIgnored(t *testing.T) {
	policy := memory.NewReleasePolicy(0, 0)
	for _, now := range []time.Duration{0, 10 * time.Millisecond, 20 * time.Millisecond} {
		if policy.ShouldRelease(now, 0, usage(50, 100)) {
			t.Fatalf("memory was released after %v", now)
		}
	}
}
