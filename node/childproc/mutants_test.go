//go:build linux

package childproc

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"shardway/internal/overlay"
	"shardway/internal/raceflag"
)

// mutant is a possible mistake, and the test that must find it.
type mutant struct {
	rule, found string
	edits       []overlay.Edit
}

func in(decl, old, changed string) []overlay.Edit {
	return []overlay.Edit{{Decl: "node/childproc." + decl, Old: old, New: changed}}
}

func mutants() []mutant {
	return []mutant{
		{"no process starts for a shard that is not acquired", "TestNoProcessRunsForShardThatIsNotAcquired", in("Supervisor.processOf", "	if !isOwned || s.closed {", "	if !PLANTED && !isOwned || s.closed {")},
		{"a release ends the processes", "TestNoProcessRunsForShardThatIsNotAcquired", in("Supervisor.disown", "; !isOwned {", "; !isOwned && !PLANTED {")},
		{"a release returns after the end", "TestReleaseDoesNotReturnBeforeTheEnd", in("Supervisor.disown", "			s.killAll(stopping)\n		}\n		<-p.ended", "			s.killAll(stopping)\n		}\n		if !PLANTED {\n			<-p.ended\n		}")},
		{"a release ends a process that starts", "TestReleaseEndsProcessThatStarts", in("Supervisor.stopLocked", "	if p.inGuard {", "	if p.inGuard && (!PLANTED || !p.readyAt.IsZero()) {")},
		{"a process of an earlier epoch ends", "TestNewEpochStartsNewProcess", in("Supervisor.acquire", "len(stale) > 0 {", "len(stale) > 0 && !PLANTED {")},
		{"the listener of another program is not used", "TestListenerOfAnotherProgramIsNotUsed", in("Supervisor.checkReady", "		return errForeignListener", "		if !PLANTED {\n			return errForeignListener\n		}")},
		{"a directory is no symbolic link", "TestSymbolicLinkIsNoDirectory", in("makeDirectory", "	case !info.IsDir():", "	case !PLANTED && !info.IsDir():")},
		{"the name of a directory depends on the whole key", "TestDirectoryNamesDiffer", in("KeyDirectory", "sha256.Sum256(key)", "sha256.Sum256(key[:map[bool]int{false: len(key), true: min(len(key), 64)}[PLANTED]])")},
		{"secrets of the node are not in the environment", "TestFirstRequestStartsTheProcessOfItsKey", in("environment", "		if !isOfNode {", "		if PLANTED || !isOfNode {")},
		{"the number of processes is limited", "TestLimitStopsUnusedProcess", in("Supervisor.takeSlot", "s.slots < s.options.Max {", "PLANTED || s.slots < s.options.Max {")},
		{"an end without a lease is no failure", "TestProcessesEndWithoutLease", in("Supervisor.isPastDeadline", "	return !ok || procguard.Boottime() >= term", "	return !ok || !PLANTED && procguard.Boottime() >= term")},
		{"a process in use is not stopped", "TestUnusedProcessIsStopped", in("Supervisor.stopIdle", "s.idleLocked(p) >= s.options.Idle && s.owner.Usage.CloseIfIdle(p.target, s.options.Idle) {", "(PLANTED || s.idleLocked(p) >= s.options.Idle && s.owner.Usage.CloseIfIdle(p.target, s.options.Idle)) {")},
		{"one key has one process", "TestFirstRequestStartsTheProcessOfItsKey", in("Supervisor.processOf", "p != nil {", "p != nil && !(PLANTED && p.state == Starting) {")},
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
	binary, err := o.TestBinary(t.Context(), t.TempDir(), "node/childproc")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range mutants() {
		t.Run(strings.ReplaceAll(m.rule, " ", "-"), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), binary, "-test.run=^"+m.found+"$", "-test.timeout=20s")
			cmd.Env = append(os.Environ(), overlay.Switch+"="+overlay.Number(i))
			if out, err := cmd.CombinedOutput(); err == nil {
				t.Errorf("%s does not find the mistake:\n%s", m.found, out)
			}
		})
	}
}
