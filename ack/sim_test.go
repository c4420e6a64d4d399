package ack_test

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardway/ack"
)

var (
	simSchedules = flag.Int("sim.schedules", 0, "how many schedules of each mix to play (0: a share that takes seconds)")
	simSeed      = flag.Uint64("sim.seed", 0, "replay this one schedule and print its trace")
	simFirst     = flag.Uint64("sim.first", 1, "the first seed")
	simMixName   = flag.String("sim.mix", "", "play this mix only")
)

// plant is a mistake on the node's side of the protocol.
type plant uint8

const (
	plantNothing plant = iota
	plantRouteProposed
	plantNoHold
	plantAckEarly
	plantNeverCut
	plantNeverCutDrain
	plantOneCheck
	plantTermBeforeEcho
	plantServerIsNode
	plantRandomBoot
	plantAnyBoot
)

func allFences() []ack.Fence { return []ack.Fence{ack.FenceLease, ack.FenceStrict, ack.FenceRefused} }

// mixes returns the fault mixes of an ordinary run.
func mixes() []*simMix {
	everything := []weighted{
		{10, "kill", faultCrash},
		{3, "wipe", faultWipe},
		{10, "pause", faultPause},
		{6, "isolate", faultIsolate},
		{6, "one-way", faultOneWay},
		{4, "halves", faultHalves},
		{3, "bridge", faultBridge},
		{4, "pair", faultPair},
		{5, "noise", faultNoise},
		{6, "elect", faultElect},
		{6, "depose", faultDepose},
		{3, "storm", faultStorm},
		{4, "forge", faultForge},
		{6, "leave", faultLeave},
		{3, "sick", faultSick},
		{2, "remove", faultRemove},
		{4, "hold", faultHold},
		{3, "slow cut", faultSlowCut},
		{4, "deaf", faultDeaf},
		{5, "compact", faultCompact},
		{4, "join", faultJoin},
	}
	short, long := [2]time.Duration{0, 300 * time.Millisecond}, [2]time.Duration{0, 1500 * time.Millisecond}
	return []*simMix{
		{name: "everything", hosts: [2]int{2, 5}, fences: allFences(), faults: [2]int{3, 10}, kinds: everything, gaps: long, stuck: 250, lateSubmit: 30},
		{name: "dense", hosts: [2]int{3, 4}, fences: allFences(), faults: [2]int{6, 24}, kinds: everything, gaps: short, stuck: 100, lateSubmit: 60},
		{name: "leaders", hosts: [2]int{3, 5}, fences: allFences(), faults: [2]int{4, 16}, gaps: short, lateSubmit: 200, stuck: 100, kinds: []weighted{
			{6, "elect", faultElect},
			{8, "depose", faultDepose},
			{4, "storm", faultStorm},
			{4, "pause", faultPause},
			{3, "kill", faultCrash},
			{3, "leave", faultLeave},
			{3, "sick", faultSick},
			{2, "compact", faultCompact},
			{2, "join", faultJoin},
			{2, "hold", faultHold},
		}},
		{name: "restarts", hosts: [2]int{2, 4}, fences: allFences(), faults: [2]int{3, 12}, gaps: long, stuck: 100, kinds: []weighted{
			{10, "kill", faultCrash},
			{4, "wipe", faultWipe},
			{5, "leave", faultLeave},
			{3, "remove", faultRemove},
			{3, "noise", faultNoise},
			{3, "compact", faultCompact},
			{3, "elect", faultElect},
			{2, "depose", faultDepose},
			{2, "forge", faultForge},
			{2, "join", faultJoin},
		}},
		{name: "quiet", hosts: [2]int{3, 5}, fences: allFences(), faults: [2]int{3, 8}, gaps: long, quiet: true, kinds: []weighted{
			{1, "elect", faultElect}, {1, "compact", faultCompact},
		}},
	}
}

func mixNamed(tb testing.TB, name string) *simMix {
	tb.Helper()
	for _, m := range mixes() {
		if m.name == name {
			return m
		}
	}
	tb.Fatalf("no mix %q", name)
	return nil
}

// TestSimulation plays schedules of every mix. It is the share of `make sim`
// that takes seconds.
func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		replay(t, simSetup{seed: *simSeed, mix: mixNamed(t, *simMixName)})
		return
	}
	n := *simSchedules
	if n == 0 {
		n = 500
	}
	total := newCoverage()
	for _, m := range mixes() {
		if *simMixName != "" && *simMixName != m.name {
			continue
		}
		cover, bad := playMany(simSetup{mix: m}, *simFirst, n)
		total.add(cover)
		t.Logf("%s: %d schedules, %d steps", m.name, cover.schedules, cover.steps)
		if bad != nil {
			complain(t, *bad)
		}
	}
	t.Logf("coverage:\n%s", total)
	if missing := total.missing(*simSchedules >= 2000); *simMixName == "" && len(missing) > 0 && !t.Failed() {
		t.Errorf("never happened: %s", strings.Join(missing, ", "))
	}
}

// playMany plays n schedules on all processors and returns the first seed that
// fails, or nil.
func playMany(s simSetup, first uint64, n int) (*coverage, *simSetup) {
	var next, worst atomic.Uint64
	next.Store(first)
	worst.Store(^uint64(0))
	total := newCoverage()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			cover := newCoverage()
			for {
				mine := s
				mine.seed = next.Add(1) - 1
				if mine.seed >= first+uint64(n) || mine.seed > worst.Load() {
					break
				}
				if w := play(mine, cover); w.failure != "" {
					for old := worst.Load(); mine.seed < old && !worst.CompareAndSwap(old, mine.seed); old = worst.Load() {
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			total.add(cover)
		})
	}
	wg.Wait()
	if worst.Load() == ^uint64(0) {
		return total, nil
	}
	s.seed = worst.Load()
	return total, &s
}

// replay plays one schedule again, with its trace.
func replay(t *testing.T, s simSetup) {
	t.Helper()
	s.tracing = true
	w := play(s, newCoverage())
	t.Logf("mix %s, seed %d, %d steps:\n%s", s.mix.name, s.seed, w.steps, strings.Join(w.trace, "\n"))
	if w.failure != "" {
		t.Errorf("%s", w.failure)
	}
}

// complain replays a schedule that failed and says how to do that again.
func complain(t *testing.T, s simSetup) {
	t.Helper()
	s.tracing = true
	w := play(s, newCoverage())
	trace := w.trace
	left := ""
	if len(trace) > 150 {
		left = fmt.Sprintf("(%d lines before)\n", len(trace)-150)
		trace = trace[len(trace)-150:]
	}
	t.Errorf("%s\nagain, with the whole trace: go test ./ack -run '^TestSimulation$' -v -sim.mix=%s -sim.seed=%d\n%s%s",
		w.failure, s.mix.name, s.seed, left, strings.Join(trace, "\n"))
}
