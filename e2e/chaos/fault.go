//go:build linux

package chaos

import (
	"math/rand/v2"
	"slices"
)

// fault is one way to hurt a cluster, for one round.
type fault interface {
	// name is what -chaos.faults matches and the table prints.
	name() string
	// begin chooses whom it hurts and does it.
	begin(w *world)
	// end heals it. What it heals is whole when all serve again.
	end(w *world)
}

// worker is a fault that has something to do, or to see, while it lasts; others
// last for a span of load.
type worker interface{ during(w *world) }

// alone is a fault that needs a cluster which is well otherwise.
type alone interface{ alone() }

// needy is a fault that needs what a machine may not have. The error says what.
type needy interface{ missing() error }

// faults makes one of each.
func faults() []fault {
	all := []fault{&nothing{}, &killAll{}, &stutter{}, &rolling{}, &stepDown{}, &halves{}, &bridge{}, &loss{}, &killApp{}, &burst{}, &dribble{}}
	for _, r := range []role{follower, leader} {
		all = append(all, &kill{role: r}, &pause{role: r}, &pause{role: r, long: true}, &isolate{role: r})
	}
	all = append(all, &oneWay{}, &oneWay{deaf: true}, &reset{}, &reset{both: true},
		&fullDisk{}, &fsync{fails: true}, &fsync{},
		&join{}, &join{remove: true}, &badHooks{},
		&drain{}, &drain{self: true}, &slowMove{}, &cordon{}, &hold{}, &hold{late: true}, &restartApp{})
	return all
}

// Kinds is the number of faults that there are.
func Kinds() int { return len(faults()) }

// fresh makes the fault of a name.
func fresh(name string) fault {
	all := faults()
	return all[slices.IndexFunc(all, func(f fault) bool { return f.name() == name })]
}

// deck deals the names of faults, each once before any comes again.
type deck struct {
	names []string
	rng   *rand.Rand
	left  []string
	// turns counts how often all were dealt before the present time.
	turns int
	// backwards deals each turn from its other end.
	backwards bool
}

func newDeck(names []string, seed uint64, backwards bool) *deck {
	return &deck{
		names: slices.Sorted(slices.Values(names)), backwards: backwards, turns: -1,
		rng: rand.New(rand.NewPCG(seed, 0)), //nolint:gosec // to be replayed
	}
}

// deal is the next name.
func (d *deck) deal() string {
	if len(d.left) == 0 {
		d.turns++
		d.left = slices.Clone(d.names)
		d.rng.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
		if d.backwards {
			slices.Reverse(d.left)
		}
	}
	name := d.left[0]
	d.left = d.left[1:]
	return name
}

// round deals the faults of a round: one, or sometimes two that go together.
func (d *deck) round(pairs bool) []fault {
	first := fresh(d.deal())
	if !pairs || d.turns == 0 || d.rng.IntN(3) > 0 || !goesTogether(first) || len(d.left) == 0 {
		return []fault{first}
	}
	second := fresh(d.left[0])
	if !goesTogether(second) || hides(first, second) || hides(second, first) {
		return []fault{first}
	}
	d.left = d.left[1:]
	return []fault{first, second}
}

func goesTogether(f fault) bool {
	_, no := f.(alone)
	return !no
}

// hides reports whether a trace and a stop get in each other's way: of a process
// that is traced nobody can tell from outside whether SIGSTOP has stopped it.
func hides(traced, stopped fault) bool {
	if _, ok := traced.(*fsync); !ok {
		return false
	}
	switch stopped.(type) {
	case *pause, *stutter:
		return true
	}
	return false
}
