//go:build planted

package planted

import (
	"os"
	"sync"
)

// Built tells whether this program has planted bugs at all.
const Built = true

// present is read once, before main, and never changes.
var present, errName = Parse(os.Getenv(Variable))

// On tells whether the program is to have the bug.
func On(b Bug) bool { return b == present }

// Present is the bug that the program has, zero for none. The error says that
// there is none of the name that was given.
func Present() (Bug, error) { return present, errName }

var firsts struct {
	mu     sync.Mutex
	values map[int]uint64
}

// First is the first value that it was ever called with for a number.
func First(number int, value uint64) uint64 {
	firsts.mu.Lock()
	defer firsts.mu.Unlock()
	if first, ok := firsts.values[number]; ok {
		return first
	}
	if firsts.values == nil {
		firsts.values = make(map[int]uint64)
	}
	firsts.values[number] = value
	return value
}
