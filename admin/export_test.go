package admin

import "net/http"

// ProbeHandler returns what ServeProbes serves.
func ProbeHandler(n ProbedNode) http.Handler { return probes(n) }
