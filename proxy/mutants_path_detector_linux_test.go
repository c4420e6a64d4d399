package proxy_test

// mutantsOfPathDetector returns the mutants of the kernel's path information of mux sessions.
func mutantsOfPathDetector() []mutant {
	return []mutant{{
		rule: "a path that is dead fails all its lanes", found: "TestDeadPathFailsAllStreams",
		edits: in("proxy.sweeper.sweepPath", "		conn.Mux.FailSession(errPathDead)\n", "		if !PLANTED {\n			conn.Mux.FailSession(errPathDead)\n		}\n"),
	}}
}
