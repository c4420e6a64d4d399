package netpoll_test

import (
	"testing"

	"shardway/internal/overlay"
	"shardway/internal/raceflag"
)

// mutants returns the mutants that the tests of this package find. Tests of package proxy find further ones.
func mutants() []overlay.Mutant {
	return []overlay.Mutant{
		{
			Rule: "a failed watcher reports all connections", Found: "TestFailedWatcherReportsAllConns",
			Decl: "internal/netpoll.Watcher.takeAll", Old: "		all = append(all, callback)\n", New: "		if !PLANTED {\n			all = append(all, callback)\n		}\n",
		},
		{
			Rule: "ids are not reused", Found: "TestWatcherDoesNotReportCancelledConn|TestFailedWatcherReportsAllConns",
			Decl: "internal/netpoll.Watcher.Watch", Old: "	w.lastID++\n", New: "	if !PLANTED {\n		w.lastID++\n	}\n",
		},
	}
}

func TestEachMutantFailsATest(t *testing.T) {
	if testing.Short() || raceflag.Detector {
		t.Skip("builds the package with mutants, and without the race detector")
	}
	overlay.TestMutants(t, "../..", "internal/netpoll", mutants())
}
