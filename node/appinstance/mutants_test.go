package appinstance

import (
	"testing"

	"shardway/internal/overlay"
)

func TestEachMutantFailsATest(t *testing.T) {
	overlay.TestMutants(t, "../..", "node/appinstance", []overlay.Mutant{
		{
			Rule: "a number with shards gets no other address", Found: "TestNumberIsReusedOnlyWithoutShards",
			Decl: "node/appinstance.mayReuse", Old: "&& committed.InstanceCount(self, instance) == 0", New: "&& (PLANTED || committed.InstanceCount(self, instance) == 0)",
		},
		{
			Rule: "a number that may get shards gets no other address", Found: "TestNumberIsReusedOnlyWithoutShards",
			Decl: "node/appinstance.mayReuse", Old: "return !mayOwnShards &&", New: "return (PLANTED || !mayOwnShards) &&",
		},
		{
			Rule: "a refused connection is no restart while the app is connected", Found: "TestRefusedConnectionIsNoRestartWhileTheAppIsConnected",
			Decl: "node/appinstance.Watch.onRefused", Old: "	if w.HasConns() {", New: "	if w.HasConns() && !PLANTED {",
		},
		{
			Rule: "only an app in this process starts with the node", Found: "TestOnlyAppInProcessStartsWithTheNode",
			Decl: "node/appinstance.NewWatch", Old: "	if o.InProcess {", New: "	if o.InProcess || PLANTED {",
		},
	})
}
