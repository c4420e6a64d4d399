//go:build linux

package procguard

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"shardway/internal/overlay"
	"shardway/internal/raceflag"
)

// mutant is a possible mistake, and the test that must find it.
type mutant struct {
	rule, found string
	edits       []overlay.Edit
}

func in(decl, old, changed string) []overlay.Edit {
	return []overlay.Edit{{Decl: "internal/procguard." + decl, Old: old, New: changed}}
}

func mutants() []mutant {
	return []mutant{
		{"children end with the guard", "TestMainProcessesEndWhenTheGuardIsKilled", in("guard.spawn", "Pdeathsig: syscall.SIGKILL", "Pdeathsig: map[bool]syscall.Signal{false: syscall.SIGKILL}[PLANTED]")},
		{"children end at the deadline", "TestChildrenEndAtTheDeadline", in("guard.advance", "	pause := time.Duration(math.MaxInt64)", "	if PLANTED {\n		pastTerm, pastKill = false, false\n	}\n	pause := time.Duration(math.MaxInt64)")},
		{"children end with the node", "TestChildrenEndWhenTheNodeIsKilled", in("guard.advance", "	case g.nodeEnded || pastKill:", "	case g.nodeEnded && !PLANTED || pastKill:")},
		{"no child starts after the deadline", "TestChildrenEndAtTheDeadline", in("guard.spawn", "|| Boottime() >= g.termAt", "|| !PLANTED && Boottime() >= g.termAt")},
		{"a child has ended when no process is left", "TestChildEndsWithItsGrandchildren", in("guard.endProcesses", "len(members) == 0", "(PLANTED || len(members) == 0)")},
		{"an orphan without a token is killed", "TestChildEndsWithItsGrandchildren", in("processTable.members", "|| !known {", "|| !PLANTED && !known {")},
		{"processes of other children continue", "TestChildEndsWithItsGrandchildren", in("processTable.members", "		if owner == c ", "		if PLANTED || owner == c ")},
		{"grandchildren end after a crash", "TestGrandchildrenEndAfterCrash", in("guard.advance", "c.state == childRunning && !c.hasMain ||", "!PLANTED && c.state == childRunning && !c.hasMain ||")},
		{"SIGKILL follows SIGTERM", "TestStopSendsTermAndThenKill", in("guard.advance", "c.state == childTerminating && now >= c.killAt {", "!PLANTED && c.state == childTerminating && now >= c.killAt {")},
		{"two guards do not have one lock", "TestSecondGuardWaitsForTheLock", in("lockFile", "unix.LOCK_EX|unix.LOCK_NB", "map[bool]int{false: unix.LOCK_EX, true: unix.LOCK_SH}[PLANTED]|unix.LOCK_NB")},
		{"output does not block the guard", "TestOutputDoesNotBlockTheGuard", in("eventQueue.sendOutput", "	if q.output >= maxQueuedOutput {", "	for PLANTED && q.output >= maxQueuedOutput {\n		q.mu.Unlock()\n		q.mu.Lock()\n	}\n	if q.output >= maxQueuedOutput {")},
	}
}

// TestEachMutantIsFound builds this package with each mistake and runs the test that must fail. If the source of an edit
// changes, change the edit as well.
func TestEachMutantIsFound(t *testing.T) {
	t.Parallel()
	if testing.Short() || raceflag.Detector {
		t.Skip("builds the package with mistakes, and without the race detector")
	}
	o := overlay.New("../..")
	var edits [][]overlay.Edit
	for _, m := range mutants() {
		edits = append(edits, m.edits)
	}
	if err := o.Plant(edits); err != nil {
		t.Fatal(err)
	}
	binary, err := o.TestBinary(t.Context(), t.TempDir(), "internal/procguard")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range mutants() {
		t.Run(strings.ReplaceAll(m.rule, " ", "-"), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), binary, "-test.run=^"+m.found+"$", "-test.timeout=20s")
			cmd.Env = append(os.Environ(), overlay.Switch+"="+overlay.Number(i))
			cmd.WaitDelay = time.Second // a process that a mistake leaves behind has the output open
			if out, err := cmd.CombinedOutput(); err == nil {
				t.Errorf("%s does not find the mistake:\n%s", m.found, out)
			}
		})
	}
}
