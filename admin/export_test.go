package admin

import "net/http"

// ProbeHandler returns what ServeProbes serves.
func ProbeHandler(n Probed) http.Handler { return probes(n) }
