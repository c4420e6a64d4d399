package proxy_test

// mistakesOfPaths are those with what the kernel tells of the path of lanes.
func mistakesOfPaths() []mistake {
	return []mistake{{
		rule: "a path that is dead fails all its lanes", found: "TestAPathThatDiesFailsAllItsLanes",
		edits: in("proxy.Server.sweepPath", "		l.mux.FailSession(errPathDead)\n", "		if !PLANTED {\n			l.mux.FailSession(errPathDead)\n		}\n"),
	}}
}
