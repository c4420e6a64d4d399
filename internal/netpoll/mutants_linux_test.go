package netpoll_test

import (
	"testing"

	"shardway/internal/overlay"
)

// Tests of package proxy find further mutants of this package.
func TestEachMutantFailsATest(t *testing.T) {
	overlay.TestMutants(t, "../..", "internal/netpoll", []overlay.Mutant{
		{
			Rule: "a failed watcher reports all connections", Found: "TestFailedWatcherReportsAllConns",
			Decl: "internal/netpoll.Watcher.takeAll", Old: "		all = append(all, callback)\n", New: "		if !PLANTED {\n			all = append(all, callback)\n		}\n",
		},
		{
			Rule: "ids are not reused", Found: "TestWatcherDoesNotReportCancelledConn|TestFailedWatcherReportsAllConns",
			Decl: "internal/netpoll.Watcher.Watch", Old: "	w.lastID++\n", New: "	if !PLANTED {\n		w.lastID++\n	}\n",
		},
	})
}
