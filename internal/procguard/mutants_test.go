//go:build linux

package procguard

import (
	"testing"

	"shardway/internal/overlay"
)

func TestEachMutantFailsATest(t *testing.T) {
	overlay.TestMutants(t, "../..", "internal/procguard", []overlay.Mutant{
		{
			Rule: "children end with the guard", Found: "TestMainProcessesEndWhenTheGuardIsKilled",
			Decl: "internal/procguard.guard.spawn", Old: "Pdeathsig: syscall.SIGKILL", New: "Pdeathsig: map[bool]syscall.Signal{false: syscall.SIGKILL}[PLANTED]",
		},
		{
			Rule: "children end at the deadline", Found: "TestChildrenEndAtTheDeadline",
			Decl: "internal/procguard.guard.advance", Old: "	pause := time.Duration(math.MaxInt64)", New: "	if PLANTED {\n		pastTerm, pastKill = false, false\n	}\n	pause := time.Duration(math.MaxInt64)",
		},
		{
			Rule: "children end with the node", Found: "TestChildrenEndWhenTheNodeIsKilled",
			Decl: "internal/procguard.guard.advance", Old: "	case g.nodeEnded || pastKill:", New: "	case g.nodeEnded && !PLANTED || pastKill:",
		},
		{
			Rule: "no child starts after the deadline", Found: "TestChildrenEndAtTheDeadline",
			Decl: "internal/procguard.guard.spawn", Old: "|| Boottime() >= g.termAt", New: "|| !PLANTED && Boottime() >= g.termAt",
		},
		{
			Rule: "a child has ended when no process is left", Found: "TestChildEndsWithItsGrandchildren",
			Decl: "internal/procguard.guard.endProcesses", Old: "len(members) == 0 && table.isComplete", New: "(PLANTED || len(members) == 0 && table.isComplete)",
		},
		{
			Rule: "no process is missing in the table", Found: "TestChainOfProcessesEndsBeforeTheChild",
			Decl: "internal/procguard.guard.endProcesses", Old: "&& table.isComplete", New: "&& (PLANTED || table.isComplete)",
		},
		{
			Rule: "an orphan without a token is killed", Found: "TestChildEndsWithItsGrandchildren",
			Decl: "internal/procguard.processTable.members", Old: "|| !known {", New: "|| !PLANTED && !known {",
		},
		{
			Rule: "processes of other children continue", Found: "TestChildEndsWithItsGrandchildren",
			Decl: "internal/procguard.processTable.members", Old: "		if owner == c ", New: "		if PLANTED || owner == c ",
		},
		{
			Rule: "grandchildren end after a crash", Found: "TestGrandchildrenEndAfterCrash",
			Decl: "internal/procguard.guard.advance", Old: "c.state == childRunning && !c.hasMain ||", New: "!PLANTED && c.state == childRunning && !c.hasMain ||",
		},
		{
			Rule: "SIGKILL follows SIGTERM", Found: "TestStopSendsTermAndThenKill",
			Decl: "internal/procguard.guard.advance", Old: "c.state == childTerminating && now >= c.killAt {", New: "!PLANTED && c.state == childTerminating && now >= c.killAt {",
		},
		{
			Rule: "two guards do not have one lock", Found: "TestSecondGuardWaitsForTheLock",
			Decl: "internal/procguard.lockFile", Old: "unix.LOCK_EX|unix.LOCK_NB", New: "map[bool]int{false: unix.LOCK_EX, true: unix.LOCK_SH}[PLANTED]|unix.LOCK_NB",
		},
		{
			Rule: "output does not block the guard", Found: "TestOutputDoesNotBlockTheGuard",
			Decl: "internal/procguard.eventQueue.sendOutput", Old: "	if q.output >= maxQueuedOutput {", New: "	for PLANTED && q.output >= maxQueuedOutput {\n		q.mu.Unlock()\n		q.mu.Lock()\n	}\n	if q.output >= maxQueuedOutput {",
		},
	})
}
