//go:build linux

package childproc

import (
	"testing"

	"shardway/internal/overlay"
)

func TestEachMutantFailsATest(t *testing.T) {
	overlay.TestMutants(t, "../..", "node/childproc", []overlay.Mutant{
		{
			Rule: "no process starts for a shard that is not acquired", Found: "TestNoProcessRunsForShardThatIsNotAcquired",
			Decl: "node/childproc.Supervisor.processOf", Old: "	if !isOwned || s.closed {", New: "	if !PLANTED && !isOwned || s.closed {",
		},
		{
			Rule: "a release ends the processes", Found: "TestNoProcessRunsForShardThatIsNotAcquired",
			Decl: "node/childproc.Supervisor.disown", Old: "; !isOwned {", New: "; !isOwned && !PLANTED {",
		},
		{
			Rule: "a release returns after the end", Found: "TestReleaseDoesNotReturnBeforeTheEnd",
			Decl: "node/childproc.Supervisor.disown", Old: "			s.killAll(stopping)\n		}\n		<-p.ended", New: "			s.killAll(stopping)\n		}\n		if !PLANTED {\n			<-p.ended\n		}",
		},
		{
			Rule: "a release ends a process that starts", Found: "TestReleaseEndsProcessThatStarts",
			Decl: "node/childproc.Supervisor.stopLocked", Old: "	if p.inGuard {", New: "	if p.inGuard && (!PLANTED || !p.readyAt.IsZero()) {",
		},
		{
			Rule: "a process of an earlier epoch ends", Found: "TestNewEpochStartsNewProcess",
			Decl: "node/childproc.Supervisor.acquire", Old: "len(stale) > 0 {", New: "len(stale) > 0 && !PLANTED {",
		},
		{
			Rule: "the listener of another program is not used", Found: "TestListenerOfAnotherProgramIsNotUsed",
			Decl: "node/childproc.Supervisor.checkReady", Old: "		return errForeignListener", New: "		if !PLANTED {\n			return errForeignListener\n		}",
		},
		{
			Rule: "a directory is no symbolic link", Found: "TestSymbolicLinkIsNoDirectory",
			Decl: "node/childproc.makeDirectory", Old: "	case !info.IsDir():", New: "	case !PLANTED && !info.IsDir():",
		},
		{
			Rule: "the name of a directory depends on the whole key", Found: "TestDirectoryNamesDiffer",
			Decl: "node/childproc.KeyDirectory", Old: "sha256.Sum256(key)", New: "sha256.Sum256(key[:map[bool]int{false: len(key), true: min(len(key), 64)}[PLANTED]])",
		},
		{
			Rule: "secrets of the node are not in the environment", Found: "TestFirstRequestStartsTheProcessOfItsKey",
			Decl: "node/childproc.environment", Old: "		if !isOfNode {", New: "		if PLANTED || !isOfNode {",
		},
		{
			Rule: "the number of processes is limited", Found: "TestLimitStopsUnusedProcess",
			Decl: "node/childproc.Supervisor.takeSlot", Old: "s.slots < s.options.Max {", New: "PLANTED || s.slots < s.options.Max {",
		},
		{
			Rule: "an end without a lease is no failure", Found: "TestProcessesEndWithoutLease",
			Decl: "node/childproc.Supervisor.isPastDeadline", Old: "	return !ok || procguard.Boottime() >= term", New: "	return !ok || !PLANTED && procguard.Boottime() >= term",
		},
		{
			Rule: "a process in use is not stopped", Found: "TestUnusedProcessIsStopped",
			Decl: "node/childproc.Supervisor.stopIdle", Old: "s.idleLocked(p) >= s.options.Idle && s.owner.Usage.CloseIfIdle(p.target, s.options.Idle) {", New: "(PLANTED || s.idleLocked(p) >= s.options.Idle && s.owner.Usage.CloseIfIdle(p.target, s.options.Idle)) {",
		},
		{
			Rule: "one key has one process", Found: "TestFirstRequestStartsTheProcessOfItsKey",
			Decl: "node/childproc.Supervisor.processOf", Old: "p != nil {", New: "p != nil && !(PLANTED && p.state == Starting) {",
		},
	})
}
