package diskhistory

import (
	"fmt"
	"strings"

	"shardway/node/disk"
)

// Statement is what one process says of its disk. All that it says is durable
// there.
type Statement struct {
	// Server is "node/disk".
	Server string
	// Boot orders the processes of a disk; Nonce is the process's own, zero if it
	// was not said: then nothing is judged and nothing learnt.
	Boot, Nonce uint64
	// Term is its Raft term, Last the index of the last entry in its log, committed
	// or not, and Applied the committed epoch that it has applied.
	Term, Last, Applied uint64
}

// RollbackError reports a disk that has gone back behind what it said before: an
// older image of it, or a copy.
type RollbackError struct {
	// Server is "node/disk".
	Server string
	// What names what was known and what is said now.
	What string
}

func (e *RollbackError) Error() string {
	node, id, _ := strings.Cut(e.Server, "/")
	return fmt.Sprintf("disk %s of node %q is an older image of itself or a copy: %s", id, node, e.What)
}

// Check returns a *RollbackError if the process that says s cannot have the disk
// of which k is known.
func Check(k disk.Known, s Statement) error {
	if s.Nonce == 0 || k.Nonce == 0 || s.Nonce == k.Nonce {
		return nil
	}
	back := func(format string, args ...any) error {
		return &RollbackError{Server: s.Server, What: fmt.Sprintf(format, args...)}
	}
	switch {
	case s.Boot < k.Boot:
		return back("this is its boot %d, and its boot %d is known", s.Boot, k.Boot)
	case s.Boot == k.Boot:
		return back("another process was its boot %d", s.Boot)
	case s.Term < k.Term:
		return back("it is in term %d, and it was in term %d", s.Term, k.Term)
	case s.Last < k.Applied:
		return back("its log ends at %d, and it had applied the map of epoch %d", s.Last, k.Applied)
	}
	return nil
}
