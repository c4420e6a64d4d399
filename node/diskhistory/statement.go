package diskhistory

import (
	"fmt"
	"strings"

	"shardway/node/disk"
)

// Statement contains the values that a process states about its disk. All of them were synced to the disk
// before the process stated them.
type Statement struct {
	// Server has the form "node/disk".
	Server string
	// Boot is the boot number, which orders the processes of a disk. Nonce is a random number that
	// identifies the process. If Nonce is zero, the statement is neither checked nor recorded.
	Boot, Nonce uint64
	// Term is the Raft term. Last is the index of the last entry in the log, committed or not. Applied is
	// the committed epoch that the process has applied.
	Term, Last, Applied uint64
}

// RollbackError reports a disk that lacks values that it stated earlier, so it is an older image of the disk, or a
// copy.
type RollbackError struct {
	// Server has the form "node/disk".
	Server string
	// What describes the recorded value and the value that contradicts it.
	What string
}

func (e *RollbackError) Error() string {
	node, id, _ := strings.Cut(e.Server, "/")
	return fmt.Sprintf("disk %s of node %q is an older image of itself or a copy: %s", id, node, e.What)
}

// Check returns a *RollbackError if the statement s contradicts the record of the same disk. A process never
// contradicts its own record, because its statements may arrive out of order.
func Check(record disk.DiskRecord, s Statement) error {
	isSameProcess := s.Nonce == record.Nonce
	if s.Nonce == 0 || record.Nonce == 0 || isSameProcess {
		return nil
	}
	rolledBack := func(format string, args ...any) error {
		return &RollbackError{Server: s.Server, What: fmt.Sprintf(format, args...)}
	}
	switch {
	case s.Boot < record.Boot:
		return rolledBack("this is its boot %d, and its boot %d is known", s.Boot, record.Boot)
	case s.Boot == record.Boot:
		return rolledBack("another process was its boot %d", s.Boot)
	case s.Term < record.Term:
		return rolledBack("it is in term %d, and it was in term %d", s.Term, record.Term)
	case s.Last < record.Applied:
		return rolledBack("its log ends at %d, and it had applied the map of epoch %d", s.Last, record.Applied)
	}
	return nil
}
