//go:build linux

package chaos

import (
	"math/rand/v2"
	"slices"
)

// fault is a kind of fault that a round injects into a cluster.
type fault interface {
	// name is matched by -chaos.faults and printed in the table.
	name() string
	// begin selects the affected nodes and injects the fault.
	begin(sc *scenario)
	// end removes the fault. Its effects end when all nodes serve again.
	end(sc *scenario)
}

// activeFault is a fault with actions of its own between begin and end. For other faults,
// the round only waits between begin and end while clients send requests. whileActive is called between
// begin and end.
type activeFault interface{ whileActive(sc *scenario) }

// exclusiveFault is a fault that must not be combined with another fault in one round.
type exclusiveFault interface{ exclusive() }

// conditionalFault is a fault that this machine may not support. unavailable returns the
// reason.
type conditionalFault interface{ unavailable() error }

// newFaults returns one fault of each kind.
func newFaults() []fault {
	all := []fault{&noFault{}, &killAll{}, &repeatedPause{}, &rolling{}, &stepDown{}, &partition{}, &bridge{}, &isolateFromFollowers{}, &loss{}, &killApp{}, &burst{}, &slowClients{}}
	for _, r := range []role{follower, leader} {
		all = append(all, &kill{role: r}, &pause{role: r}, &pause{role: r, isLong: true}, &isolate{role: r})
	}
	all = append(all, &oneWay{}, &oneWay{receiveLoss: true}, &reset{}, &reset{both: true},
		&fullDisk{}, &fsyncFault{returnsError: true}, &fsyncFault{},
		&nodeReplacement{}, &nodeReplacement{killsNode: true}, &badHooks{},
		&drain{}, &drain{isLocal: true}, &slowMove{}, &cordon{}, &hold{}, &hold{returnsLate: true}, &restartApp{},
		&instanceFault{kind: "kill -9"}, &instanceFault{kind: "SIGSTOP"}, &instanceFault{kind: "drain"})
	return all
}

// Kinds returns the number of fault kinds.
func Kinds() int { return len(newFaults()) }

// newFault returns a new fault with this name.
func newFault(name string) fault {
	all := newFaults()
	return all[slices.IndexFunc(all, func(injected fault) bool { return injected.name() == name })]
}

// schedule yields the names of faults in random order. Each name comes once before any
// name comes again.
type schedule struct {
	names          []string
	rng            *rand.Rand
	remainingNames []string
	// cycles is the number of completed cycles before the current one.
	cycles int
	// reverse reverses the order within each cycle.
	reverse bool
}

func newSchedule(names []string, seed uint64, reverse bool) *schedule {
	return &schedule{
		names: slices.Sorted(slices.Values(names)), reverse: reverse, cycles: -1,
		rng: rand.New(rand.NewPCG(seed, 0)), //nolint:gosec // must be reproducible
	}
}

// next returns the next name.
func (s *schedule) next() string {
	if len(s.remainingNames) == 0 {
		s.cycles++
		s.remainingNames = slices.Clone(s.names)
		s.rng.Shuffle(len(s.remainingNames), func(i, j int) { s.remainingNames[i], s.remainingNames[j] = s.remainingNames[j], s.remainingNames[i] })
		if s.reverse {
			slices.Reverse(s.remainingNames)
		}
	}
	name := s.remainingNames[0]
	s.remainingNames = s.remainingNames[1:]
	return name
}

// nextRound returns the faults of a round: one, or sometimes two that can be combined.
func (s *schedule) nextRound(pairs bool) []fault {
	first := newFault(s.next())
	isFirstCycle := s.cycles == 0 // in which each fault has a round of its own
	if !pairs || isFirstCycle || s.rng.IntN(3) > 0 || len(s.remainingNames) == 0 {
		return []fault{first}
	}
	second := newFault(s.remainingNames[0])
	if !canCombine(first, second) {
		return []fault{first}
	}
	s.remainingNames = s.remainingNames[1:]
	return []fault{first, second}
}

// canCombine reports whether two faults may affect the cluster at the same time.
func canCombine(first, second fault) bool {
	_, isFirstExclusive := first.(exclusiveFault)
	_, isSecondExclusive := second.(exclusiveFault)
	isAnyExclusive := isFirstExclusive || isSecondExclusive
	return !isAnyExclusive && !haveConflict(first, second) && !haveConflict(second, first)
}

// haveConflict reports whether two faults must not affect the cluster at the same time.
// fsyncFault traces a process with ptrace. The process state in /proc then no longer shows
// whether SIGSTOP has stopped the process, which the pause faults must know.
func haveConflict(traced, stopped fault) bool {
	if _, ok := traced.(*fsyncFault); !ok {
		return false
	}
	switch stopped.(type) {
	case *pause, *repeatedPause:
		return true
	}
	return false
}
