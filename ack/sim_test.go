package ack_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardway/ack"
)

var (
	simSchedules = flag.Int("sim.schedules", 0, "how many schedules to play (0: a share that takes seconds)")
	simSeed      = flag.Uint64("sim.seed", 0, "replay this one schedule of -sim.mix and print its trace")
	simFirst     = flag.Uint64("sim.first", 1, "the first seed")
	simCaught    = flag.Bool("sim.caught", false, "write down which schedule catches each mutant")
	simMutant    = flag.String("sim.mutant", "", "plant only mutants whose name contains this")
	simMixName   = flag.String("sim.mix", "", "play this mix only")
)

// plant is a mutant in the environment of the machines: the disk of a node and the admission
// of requests, which the simulation models.
type plant uint8

const (
	plantNothing plant = iota
	plantOneCheck
	plantServerIsNode
	plantRandomBoot
	plantVoteNotSynced
	plantLogNotSynced
	plantBootNotSynced
	plantNameAtOnce
	plantAppKeepsNoSeq
	plantHeardVotes
	plantLateCheck
)

func allTakeovers() []ack.Takeover {
	return []ack.Takeover{ack.TakeoverLease, ack.TakeoverTimeout, ack.TakeoverImmediate}
}

// mixes returns the fault mixes of an ordinary run.
func mixes() []*simMix {
	short, long := [2]time.Duration{0, 300 * time.Millisecond}, [2]time.Duration{0, 1500 * time.Millisecond}
	everything := "kill 10, wipe 3, pause 10, isolate 6, one-way 6, halves 4, bridge 3, pair 4, noise 5, stall 5, no-log 4, elect 6, depose 6, storm 3, " +
		"forge 4, leave 6, sick 3, remove 2, hold 4, slow-cut 3, deaf 4, compact 5, join 4, retime 6, " +
		"disk 5, power 4, outage 1, split 4, demote 3, expel 2, reconfigure 2, trail 3, policy 5"
	return []*simMix{
		{
			name: "everything", hosts: [2]int{2, 5}, takeovers: allTakeovers(), faults: [2]int{3, 10}, gaps: long, stuck: 250, lateSubmit: 30, astray: 10, suspicions: 50,
			kinds: kinds(everything),
		},
		{
			name: "dense", hosts: [2]int{3, 4}, takeovers: allTakeovers(), faults: [2]int{6, 24}, gaps: short, stuck: 100, lateSubmit: 60, astray: 10, suspicions: 50,
			kinds: kinds(everything),
		},
		{
			name: "leaders", hosts: [2]int{3, 5}, takeovers: allTakeovers(), faults: [2]int{4, 16}, gaps: short, stuck: 100, lateSubmit: 200, astray: 10, suspicions: 50,
			kinds: kinds("elect 6, depose 8, storm 4, pause 4, kill 3, leave 3, sick 3, compact 2, join 2, hold 2, stall 3, retime 4"),
		},
		{
			name: "restarts", hosts: [2]int{2, 4}, takeovers: allTakeovers(), faults: [2]int{3, 12}, gaps: long, stuck: 100, astray: 10,
			kinds: kinds("kill 10, wipe 4, leave 5, remove 3, noise 3, stall 3, compact 3, elect 3, depose 2, forge 2, join 2"),
		},
		{
			name: "slow", hosts: [2]int{3, 4}, takeovers: allTakeovers(), faults: [2]int{3, 9}, gaps: [2]time.Duration{0, 5 * time.Second}, stuck: 300,
			kinds: kinds("hold 6, laggard 6, slow-cut 3, deaf 3, join 3, kill 3, leave 3, sick 3, elect 2, one-way 2, pause 2"),
		},
		{
			name: "scenes", hosts: [2]int{3, 5}, takeovers: allTakeovers(), faults: [2]int{3, 5}, gaps: long, stuck: 100, lateSubmit: 60, astray: 50,
			kinds: kinds("trap 1, blind 1, straggler 1, old-boot 1, echoes 1, convert 1, two-faced 1, late-barrier 1, last-words 1, late-answers 1, late-evidence 1, late-commit 1, two-gone 1"),
		},
		{
			name: "lone", hosts: [2]int{1, 4}, takeovers: allTakeovers(), faults: [2]int{3, 8}, gaps: long, lateSubmit: 200, lone: true,
			kinds: kinds("kill 6, pause 3, stall 2, hold 3, leave 2, sick 3, compact 3, join 2, noise 2"),
		},
		{
			name: "timings", hosts: [2]int{3, 5}, takeovers: allTakeovers(), faults: [2]int{3, 9}, gaps: [2]time.Duration{0, 4 * time.Second}, stuck: 100, lateSubmit: 100,
			kinds: kinds("retime 6, retime-cut 6, retime-lost 4, retime-takeover 2, retime-elect 4, retime-halves 4, isolate 4, depose 4, elect 4, forge 3, pause 3, kill 3, compact 3, stall 2, sick 2, join 1"),
		},
		{
			name: "policies", hosts: [2]int{2, 5}, takeovers: allTakeovers(), faults: [2]int{4, 16}, gaps: long, stuck: 150, lateSubmit: 100, astray: 10, standbys: 40,
			kinds: kinds("policy 14, policy-elect 6, pause-loss 3, kill 4, leave 4, sick 3, isolate 3, depose 4, elect 4, hold 3, one-way 2, deaf 2, compact 4, join 3, pause 2, weight 2, remove 2, wipe 1, retime 1"),
		},
		{
			name: "disks", hosts: [2]int{3, 5}, takeovers: allTakeovers(), faults: [2]int{4, 14}, gaps: short, stuck: 100, lateSubmit: 60, suspicions: 50,
			kinds: kinds("disk 10, hang 2, power 6, outage 2, kill 5, split 4, elect 4, compact 3, sick 2, leave 2, trail 2, stall 2, pause 2"),
		},
		{
			name: "health", hosts: [2]int{3, 5}, takeovers: allTakeovers(), faults: [2]int{4, 12}, gaps: [2]time.Duration{0, 3 * time.Second}, stuck: 100, lateSubmit: 30, astray: 10,
			kinds: kinds("sick-most 8, flap 6, flap-loss 4, sick 4, kill 3, elect 3, depose 2, leave 2, join 3, pause 2, isolate 2, policy 2, restart 1"),
		},
		{
			name: "members", hosts: [2]int{3, 5}, takeovers: allTakeovers(), faults: [2]int{4, 14}, gaps: long, stuck: 100, lateSubmit: 60, suspicions: 50,
			kinds: kinds("demote 8, expel 6, reconfigure 5, leave 6, wipe 4, kill 4, depose 4, elect 3, isolate 4, one-way 3, compact 3, join 3, trail 2, split 2"),
		},
		{
			name: "births", hosts: [2]int{1, 5}, takeovers: allTakeovers(), faults: [2]int{3, 9}, gaps: short, stuck: 50, lateSubmit: 200, bootstraps: 100,
			kinds: kinds("kill 8, power 4, disk 4, pause 3, isolate 3, one-way 2, elect 4, depose 3, split 2, compact 3, noise 2, join 2, leave 1, retime 2, demote 1"),
		},
		{
			name: "twins", hosts: [2]int{3, 5}, takeovers: allTakeovers(), faults: [2]int{3, 8}, gaps: long, stuck: 50, lateSubmit: 60, astray: 10, twins: 100, suspicions: 50,
			kinds: kinds("twin 8, kill 4, pause 3, isolate 3, elect 3, depose 3, sick 2, wipe 1, forge 2, power 2, compact 2, retime 2, leave 1"),
		},
		{
			name: "hooks", hosts: [2]int{2, 5}, takeovers: allTakeovers(), faults: [2]int{4, 14}, gaps: long, stuck: 50, lateSubmit: 60, astray: 10, hooks: 100, suspicions: 50,
			kinds: kinds("app-ill 12, safe-drain 4, policy 6, app-restart 8, app-hangs 3, no-deliver 4, restart 7, restart-elect 3, restart-join 3, kill 6, leave 6, sick 5, join 4, pause 4, isolate 4, one-way 3, halves 3, elect 4, depose 4, storm 2, forge 3, " +
				"hold 3, slow-cut 2, deaf 2, trail 2, wipe 2, stall 3, compact 3, remove 1, noise 2, retime 1, power 2"),
		},
		{
			name: "planned", hosts: [2]int{2, 5}, takeovers: allTakeovers(), faults: [2]int{4, 14}, gaps: long, stuck: 150, lateSubmit: 100, astray: 10, hooks: 25, standbys: 40,
			kinds: kinds("restart 16, restart-elect 6, restart-join 8, kill 4, leave 3, sick 3, isolate 4, one-way 3, halves 2, depose 3, elect 3, hold 3, deaf 2, compact 4, join 3, pause 3, policy 4, remove 2, wipe 1, forge 3, power 2"),
		},
		{
			name: "caches", hosts: [2]int{2, 5}, takeovers: allTakeovers(), faults: [2]int{4, 16}, gaps: long, stuck: 100, lateSubmit: 60, astray: 10, caches: 100,
			kinds: kinds("cache-restart 12, app-port 4, leave 6, sick 6, policy 8, kill 6, restart 5, restart-elect 2, restart-join 3, join 4, isolate 4, one-way 2, depose 3, elect 3, hold 3, deaf 2, compact 4, pause 3, weight 3, remove 2, wipe 2, noise 2, stall 2"),
		},
		{
			name: "instances", hosts: [2]int{2, 5}, takeovers: allTakeovers(), faults: [2]int{4, 16}, gaps: long, stuck: 100, lateSubmit: 60, astray: 10, hooks: 45, caches: 50, instances: 100,
			kinds: kinds("instance-die 10, instance-hang 10, instance-sick 5, instance-roll 4, policy 5, kill 5, leave 4, restart 4, restart-join 2, join 3, sick 3, isolate 4, one-way 2, pause 3, depose 3, elect 3, hold 2, deaf 2, compact 3, " +
				"app-restart 2, cache-restart 2, wipe 1, forge 2, stall 2, noise 2, retime 1, weight 2"),
		},
		{
			name: "lists", hosts: [2]int{2, 4}, takeovers: allTakeovers(), faults: [2]int{4, 14}, gaps: long, stuck: 50, lateSubmit: 60, astray: 10, hooks: 35, caches: 60, instances: 100,
			kinds: kinds("instance-list 12, instance-drain 10, instance-die 5, instance-hang 4, instance-sick 3, instance-roll 2, policy 2, kill 4, leave 2, restart 3, join 2, isolate 3, depose 3, elect 3, compact 3, cache-restart 3, pause 2, weight 1"),
		},
		{
			name: "services", hosts: [2]int{2, 5}, takeovers: allTakeovers(), faults: [2]int{5, 16}, gaps: long, stuck: 50, lateSubmit: 60, astray: 10, hooks: 30, services: 100, standbys: 40,
			kinds: kinds("service-add 14, keys 6, service-list 8, service-retire 4, service-remove 4, instance-die 6, instance-hang 4, instance-sick 6, kill 5, leave 4, restart 4, join 3, sick 2, isolate 4, one-way 2, halves 2, pause 3, " +
				"depose 4, elect 4, hold 2, deaf 2, compact 4, stall 2, noise 2, pause-loss 1"),
		},
		{
			name: "in-place", hosts: [2]int{3, 5}, takeovers: allTakeovers(), faults: [2]int{3, 6}, gaps: [2]time.Duration{0, 300 * time.Millisecond}, quiet: true,
			kinds: kinds("in-place 1"),
		},
		{
			name: "missed", hosts: [2]int{3, 5}, takeovers: allTakeovers(), faults: [2]int{4, 9}, gaps: short, suspicions: 100,
			kinds: kinds("leader-hangs 8, doze 3, pair 3, pause 2, kill 2, elect 2, isolate 2, noise 1, stall 1, disk 1, compact 1"),
		},
		{
			name: "keys", hosts: [2]int{2, 5}, takeovers: allTakeovers(), faults: [2]int{3, 10}, gaps: [2]time.Duration{0, 4 * time.Second}, stuck: 50, lateSubmit: 60, hooks: 25, suspicions: 50,
			kinds: kinds("keys 16, kill 4, isolate 3, one-way 2, depose 3, elect 3, pause 3, compact 3, join 3, leave 3, sick 2, hold 2, restart 3, forge 2, policy 1, wipe 1"),
		},
		{
			name: "reach", hosts: [2]int{3, 6}, takeovers: allTakeovers(), faults: [2]int{3, 9}, gaps: [2]time.Duration{0, 3 * time.Second}, stuck: 100, lateSubmit: 30, astray: 10, hooks: 20, reaches: 100,
			kinds: kinds("spoke 12, spoke-flap 4, star 4, pair 3, bridge 4, halves 1, isolate 2, one-way 2, elect 4, depose 3, kill 4, leave 2, sick 2, pause 3, hold 2, noise 2, stall 1, policy 3, weight 1, join 2, compact 2, wipe 1, restart 1"),
		},
		{
			name: "roles", hosts: [2]int{2, 5}, takeovers: allTakeovers(), faults: [2]int{4, 14}, gaps: long, stuck: 100, lateSubmit: 60, astray: 10, hooks: 40, caches: 30, instances: 20, standbys: 40,
			kinds: kinds("role 14, app-ill 5, role-restart 10, policy 4, mark 2, pause-loss 1, kill 4, leave 3, sick 3, restart 3, isolate 3, one-way 1, depose 3, elect 4, hold 2, compact 3, join 3, pause 2, weight 2, remove 1, wipe 1"),
		},
		{
			name: "quiet", hosts: [2]int{3, 5}, takeovers: allTakeovers(), faults: [2]int{3, 8}, gaps: long, quiet: true,
			kinds: kinds("elect 1, compact 1"),
		},
		{
			name: "marks", hosts: [2]int{2, 5}, takeovers: allTakeovers(), faults: [2]int{4, 14}, gaps: long, stuck: 50, lateSubmit: 60, astray: 10, hooks: 40, suspicions: 50, reaches: 30,
			kinds: kinds("mark 8, mark-restart 5, mark-drain 4, spoke 2, spoke-flap 1, app-ill 5, policy 3, restart 3, kill 4, leave 2, sick 2, isolate 3, one-way 2, pause 3, hold 3, elect 3, depose 2, compact 3, join 2, remove 1, wipe 1"),
		},
	}
}

func mixNames() []string {
	var names []string
	for _, m := range mixes() {
		names = append(names, m.name)
	}
	return names
}

// mixCalled returns the mix with the given name.
func mixCalled(name string) *simMix {
	for _, m := range mixes() {
		if m.name == name {
			return m
		}
	}
	panic(fmt.Sprintf("no mix %q", name))
}

// TestSimulation runs schedules of every mix. It is the short form of make sim.
func TestSimulation(t *testing.T) {
	if !slices.Contains(append(mixNames(), ""), *simMixName) || *simSeed != 0 && *simMixName == "" {
		t.Fatalf("-sim.mix=%q: want one of %v", *simMixName, mixNames())
	}
	if *simSeed != 0 {
		replay(t, simSetup{seed: *simSeed, mix: mixCalled(*simMixName)})
		return
	}
	chosen := mixes()
	if *simMixName != "" {
		chosen = []*simMix{mixCalled(*simMixName)}
	}
	n, first := cmp.Or(*simSchedules, simShare), *simFirst
	if of, err := strconv.ParseUint(os.Getenv("SHARDWAY_TEST_SEED"), 10, 32); err == nil && *simSchedules == 0 {
		first = of // of the usual share only: with -sim.schedules, -sim.first sets the first seed
	}
	t.Logf("first seed %d", first)
	total := newCoverage()
	for i, m := range chosen {
		cover, bad := playMany(simSetup{mix: m}, first, (n+i)/len(chosen))
		total.add(cover)
		t.Logf("%s: %d schedules, steps: %v, faults: %v", m.name, cover.schedules, cover.steps, cover.faults)
		if bad != nil {
			reportFailure(t, *bad)
		}
	}
	t.Logf("coverage:\n%s", total)
	if total.splits > 1+total.hangs/1000 {
		t.Errorf("%d of %d elections against a leader that hung were split", total.splits, total.hangs)
	}
	if missing := total.missing(*simSchedules >= 20000); *simMixName == "" && len(missing) > 0 && !t.Failed() {
		t.Errorf("never happened: %s", strings.Join(missing, ", "))
	}
}

// playMany runs n schedules on all processors and returns the first seed that fails, or nil.
func playMany(s simSetup, first uint64, n int) (*coverage, *simSetup) {
	var next, worst atomic.Uint64
	next.Store(first)
	worst.Store(^uint64(0))
	counts := s.counts
	if counts == nil {
		counts = func(failure string) bool { return failure != "" }
	}
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
				if w := play(mine, cover); counts(w.failure) {
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

// replay runs one schedule again, with its trace.
func replay(t *testing.T, s simSetup) {
	t.Helper()
	s.tracing = true
	w := play(s, newCoverage())
	t.Logf("mix %s, seed %d, %d steps:\n%s", s.mix.name, s.seed, w.steps, strings.Join(w.trace, "\n"))
	if w.failure != "" {
		t.Errorf("%s", w.failure)
	}
}

// reportFailure replays a failed schedule and prints how to repeat it.
func reportFailure(t *testing.T, s simSetup) {
	t.Helper()
	s.tracing = true
	w := play(s, newCoverage())
	t.Errorf("%s\nagain, with the whole trace: go test ./ack -run '^TestSimulation$' -v -sim.mix=%s -sim.seed=%d\n%s",
		w.failure, s.mix.name, s.seed, tail(w.trace, 150))
}

// tail returns the last n lines.
func tail(lines []string, n int) string {
	if len(lines) <= n {
		return strings.Join(lines, "\n")
	}
	return fmt.Sprintf("(%d lines before)\n", len(lines)-n) + strings.Join(lines[len(lines)-n:], "\n")
}
