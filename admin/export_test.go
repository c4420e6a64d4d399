package admin

import "net/http"

// ProbeHandler returns what ServeProbes serves.
func ProbeHandler(r Readiness) http.Handler { return probes(r) }
