package findings

import (
	"slices"
	"testing"

	"shardway/diagnosis"
	"shardway/proxy/route"
)

// A failed request is explained by related findings only. Once, a client whose request failed, for which an app that refuses connections is
// enough, was told that the loss of one more node would stop the cluster.
func TestFailedRequestsGetNoUnrelatedFinding(t *testing.T) {
	for why := range route.ReasonUnreachable + 2 {
		for _, code := range []diagnosis.Code{diagnosis.NoFaultTolerance, diagnosis.EvenVoters, diagnosis.Insecure, diagnosis.PoisonSuspect, diagnosis.CertificateExpiring} {
			if slices.Contains(causesOf(why), code) {
				t.Errorf("%v is explained by %s", why, code)
			}
		}
	}
}
