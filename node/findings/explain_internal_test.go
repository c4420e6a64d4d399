package findings

import (
	"slices"
	"testing"

	"shardway/diagnosis"
	"shardway/proxy/route"
)

// Whoever has a request fail, which an app that refuses is enough for, was told that the
// loss of one more node would stop the cluster: that is why no request fails.
func TestFailedRequestsGetNoUnrelatedFinding(t *testing.T) {
	for why := range route.ReasonUnreachable + 2 {
		for _, code := range []diagnosis.Code{diagnosis.NoFaultTolerance, diagnosis.EvenVoters, diagnosis.Insecure, diagnosis.PoisonSuspect, diagnosis.CertificateExpiring} {
			if slices.Contains(causesOf(why), code) {
				t.Errorf("%v is explained by %s", why, code)
			}
		}
	}
}
