package node

import (
	"slices"
	"testing"

	"shardway/proxy"
	"shardway/verdict"
)

// Whoever has a request fail, which an app that refuses is enough for, was told that the
// loss of one more node would stop the cluster: that is why no request fails.
func TestClientsAreNotToldWhatExplainsNothing(t *testing.T) {
	for why := range proxy.ReasonUnreachable + 2 {
		for _, code := range []verdict.Code{verdict.NoFaultTolerance, verdict.EvenVoters, verdict.Insecure, verdict.PoisonSuspect, verdict.CertificateExpiring} {
			if slices.Contains(explaining(why), code) {
				t.Errorf("%v is explained by %s", why, code)
			}
		}
	}
}
