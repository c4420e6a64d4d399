package proxy_test

// mutantsOfPathDetector are those with what the kernel tells of the path of lanes.
func mutantsOfPathDetector() []mutant {
	return []mutant{{
		rule: "a path that is dead fails all its lanes", found: "TestDeadPathFailsAllStreams",
		edits: in("proxy.Server.sweepPath", "		conn.Mux.FailSession(errPathDead)\n", "		if !PLANTED {\n			conn.Mux.FailSession(errPathDead)\n		}\n"),
	}}
}
